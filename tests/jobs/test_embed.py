"""embed_file: streaming, whole outputs, one warning, and what is done about outputs that exist."""

from __future__ import annotations

import gzip
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anaume
from anaume.bundle import Bundle
from anaume.data import read_vectors
from anaume.errors import AnaumeWarning, DataError, SettingsError
from anaume.jobs import embed
from anaume.jobs.embed import embed_file
from anaume.jobs.kept_vectors import kept_vectors

TEXTS = ["the dog is cute", "", "a river", "my cat likes the bank of the river", "money", "dog " * 30, "銀"]


@pytest.fixture(scope="module")
def bundle(tiny_bundle_dir: Path) -> Bundle:
    return anaume.load(tiny_bundle_dir)


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embed, "CHUNK", 3)


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    return written(tmp_path / "texts.txt", TEXTS)


def written(path: Path, texts: list[str]) -> Path:
    path.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    return path


def quietly(*arguments: Any, **options: Any) -> embed.EmbedSummary:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AnaumeWarning)
        return embed_file(*arguments, **options)


def test_chunks_leave_no_seams_and_one_warning_tells_of_all(bundle: Bundle, texts: Path, tmp_path: Path) -> None:
    with pytest.warns(AnaumeWarning) as caught:
        summary = embed_file(bundle, texts, tmp_path / "v.npy")
    with pytest.warns(AnaumeWarning) as at_once:
        report = bundle.embed_report(TEXTS)
    assert [str(one.message) for one in caught] == [str(one.message) for one in at_once]
    assert str(caught[0].message) == "; ".join(summary.messages)
    assert summary.messages == report.messages
    np.testing.assert_allclose(read_vectors(tmp_path / "v.npy").vectors, report.vectors, atol=1e-5)
    assert (summary.texts, summary.cut, summary.pieces, summary.unknown) == (7, 1, report.pieces, report.unknown)
    assert summary.coverage == pytest.approx(report.coverage.mean())
    assert summary.unknown_share == pytest.approx(report.unknown_share)
    assert summary.fingerprint == report.fingerprint == bundle.fingerprint


def test_rows_are_read_as_they_are_needed(bundle: Bundle, texts: Path, tmp_path: Path, monkeypatch: Any) -> None:
    taken: list[int] = []
    real = embed.read_rows

    def counting(*arguments: Any, **options: Any) -> Iterator[Any]:
        for row in real(*arguments, **options):
            taken.append(row.number)
            yield row

    class Watching(Bundle):
        def _embed(self, *arguments: Any, **options: Any) -> Any:
            assert len(taken) - seen[0] <= embed.CHUNK
            seen[0] = len(taken)
            return super()._embed(*arguments, **options)

    seen = [0]
    monkeypatch.setattr(embed, "read_rows", counting)
    quietly(Watching(bundle.parts), texts, tmp_path / "v.jsonl")
    assert seen == [len(TEXTS)]


def test_the_weights_are_hashed_once(bundle: Bundle, texts: Path, tmp_path: Path, monkeypatch: Any) -> None:
    import anaume.bundle.bundle as module

    hashed: list[int] = []
    real = module.weights_fingerprint
    monkeypatch.setattr(module, "weights_fingerprint", lambda model: (hashed.append(1), real(model))[1])
    quietly(bundle, texts, tmp_path / "v.npy")
    assert len(hashed) == 1


def test_several_files_of_several_kinds_in_order(bundle: Bundle, tmp_path: Path) -> None:
    first = written(tmp_path / "a.txt", ["the dog"])
    second = tmp_path / "b.jsonl.gz"
    second.write_bytes(gzip.compress(b'{"text": "a river", "id": 7}\n'))
    out = tmp_path / "v.jsonl"
    assert embed_file(bundle, [first, second], out).texts == 2
    stored = read_vectors(out)
    assert stored.rows == [{"text": "the dog"}, {"text": "a river", "id": 7}]
    np.testing.assert_allclose(stored.vectors, bundle.embed(["the dog", "a river"]), atol=1e-5)


def test_windows_see_everything_and_have_their_own_fingerprint(bundle: Bundle, texts: Path, tmp_path: Path) -> None:
    summary = quietly(bundle, texts, tmp_path / "v.npy", long="window")
    assert (summary.cut, summary.coverage) == (0, 1.0)
    report = bundle.embed_report(TEXTS, long="window")
    assert summary.fingerprint == report.fingerprint != bundle.fingerprint
    np.testing.assert_allclose(read_vectors(tmp_path / "v.npy").vectors, report.vectors, atol=1e-5)


def test_a_text_that_is_too_long_is_named_by_file_and_row(bundle: Bundle, texts: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"texts\.txt: row 6: the text has 30 pieces .* 16 tokens"):
        embed_file(bundle, texts, tmp_path / "v.npy", long="error")
    assert not (tmp_path / "v.npy").exists()


def test_error_and_truncate_give_one_fingerprint(bundle: Bundle, tmp_path: Path) -> None:
    short = written(tmp_path / "short.txt", ["the dog"])
    summary = embed_file(bundle, short, tmp_path / "v.npy", long="error")
    assert summary.fingerprint == bundle.fingerprint


def test_a_bad_row_late_in_the_file_leaves_the_old_output(bundle: Bundle, tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"text": "dog"}\n' * 5 + '{"text": null}\n', encoding="utf-8")
    out = tmp_path / "v.parquet"
    out.write_bytes(b"older")
    with pytest.raises(DataError, match=r"rows\.jsonl: row 6: field 'text'"):
        embed_file(bundle, rows, out, overwrite=True)
    assert out.read_bytes() == b"older"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["rows.jsonl", "v.parquet"]


def test_weights_that_give_no_number_are_refused_by_row(tiny_bundle_dir: Path, tmp_path: Path) -> None:
    broken = anaume.load(tiny_bundle_dir)
    broken.model.embeddings.token_embeddings.weight.data[:] = float("nan")
    with pytest.raises(DataError, match=r"t\.txt: row 1: its vector is not finite"):
        embed_file(broken, written(tmp_path / "t.txt", ["dog"]), tmp_path / "v.npy")
    assert not (tmp_path / "v.npy").exists()


# -- outputs that exist --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", [".npy", ".jsonl", ".parquet"])
def test_the_same_again_is_nothing_to_do(bundle: Bundle, texts: Path, tmp_path: Path, ending: str) -> None:
    out = tmp_path / f"v{ending}"
    quietly(bundle, texts, out)
    before = out.read_bytes()
    again = embed_file(bundle, texts, out)
    assert again.finished_before
    assert (again.texts, again.messages) == (0, ())
    moved = texts.rename(tmp_path / "other-name.txt")
    assert embed_file(bundle, moved, out).finished_before, "the content counts, not the name"
    assert out.read_bytes() == before


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"as_": "query"}, "as nothing is now query"),
        ({"long": "window"}, "long truncate is now window"),
        ({"format": "tsv", "header": False}, "reading nothing is now format=tsv header=False"),
    ],
)
def test_other_settings_are_refused_by_name(
    bundle: Bundle, texts: Path, tmp_path: Path, change: dict[str, Any], said: str
) -> None:
    out = tmp_path / "v.npy"
    quietly(bundle, texts, out)
    before = out.read_bytes()
    with pytest.raises(DataError, match="made otherwise") as caught:
        embed_file(bundle, texts, out, **change)
    assert said in str(caught.value)
    assert "--overwrite" in str(caught.value)
    assert out.read_bytes() == before
    quietly(bundle, texts, out, overwrite=True, **change)
    assert embed_file(bundle, texts, out, **change).finished_before
    with pytest.raises(DataError, match=r"is now nothing|is now truncate"):
        embed_file(bundle, texts, out)


def test_other_texts_another_model_another_precision_are_refused(
    bundle: Bundle, texts: Path, tiny_bundle_dir: Path, tmp_path: Path
) -> None:
    out = tmp_path / "v.jsonl"
    quietly(bundle, texts, out)
    with pytest.raises(DataError, match="precision float32 is now bfloat16"):
        embed_file(anaume.load(tiny_bundle_dir, precision="bfloat16"), texts, out)
    changed = anaume.load(tiny_bundle_dir)
    changed.model.embeddings.layer_norm.weight.data.mul_(2.0)
    with pytest.raises(DataError, match=r"fingerprint .* is now"):
        embed_file(changed, texts, out)
    written(texts, [*TEXTS, "one more"])
    with pytest.raises(DataError, match=r"sources .* is now"):
        embed_file(bundle, texts, out)


@pytest.mark.parametrize("name", ["v.npy", "v.npy.json"])
def test_what_is_not_ours_is_not_touched(bundle: Bundle, texts: Path, tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"the user's")
    with pytest.raises(DataError, match=r"exists and is no finished output.*--overwrite"):
        embed_file(bundle, texts, tmp_path / "v.npy")
    assert (tmp_path / name).read_bytes() == b"the user's"


def test_an_input_is_never_the_output(bundle: Bundle, tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"text": "dog"}\n', encoding="utf-8")
    (tmp_path / "link.jsonl").symlink_to(rows)
    for out in (rows, tmp_path / "link.jsonl"):
        with pytest.raises(SettingsError, match="one of the inputs"):
            embed_file(bundle, rows, out, overwrite=True)


def test_no_file_at_all_is_wrong_use(bundle: Bundle, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="at least one file"):
        embed_file(bundle, [], tmp_path / "v.npy")


@pytest.mark.parametrize("ending", [".npy", ".jsonl", ".parquet"])
def test_a_broken_off_run_goes_on_where_it_was(
    bundle: Bundle, texts: Path, tmp_path: Path, ending: str, monkeypatch: Any
) -> None:
    whole, out = tmp_path / f"whole{ending}", tmp_path / f"v{ending}"
    wanted = quietly(bundle, texts, whole)
    embedded: list[int] = []
    real = Bundle._embed

    def broken(self: Bundle, chunk: Any, *arguments: Any, **options: Any) -> Any:
        embedded.append(len(chunk))
        if len(embedded) == 3:
            raise KeyboardInterrupt
        return real(self, chunk, *arguments, **options)

    monkeypatch.setattr(Bundle, "_embed", broken)
    with pytest.raises(KeyboardInterrupt):
        quietly(bundle, texts, out)
    assert not out.exists()
    summary = quietly(bundle, texts, out)
    assert embedded == [3, 3, 1, 1]  # the third, which was broken off, and no other again
    assert out.read_bytes() == whole.read_bytes()
    for name in ("texts", "cut", "coverage", "pieces", "unknown", "messages"):
        assert getattr(summary, name) == getattr(wanted, name)
    assert not list(tmp_path.glob(".anaume-*"))


def test_what_is_kept_is_cut_to_what_is_whole_and_never_another_run_s(tmp_path: Path) -> None:
    settings, out = {"fingerprint": "f"}, tmp_path / "v.npy"
    vectors = np.arange(6, dtype=np.float32).reshape(3, 2)
    with kept_vectors(out, 2, settings) as kept:
        assert kept is not None
        kept.add(vectors, {"texts": 3})
        kept.add(vectors[:1], {"texts": 4})
        with kept_vectors(out, 2, settings) as other:  # another process, at the same time
            assert other is None
    (folder,) = tmp_path.glob(".anaume-*.part")
    with kept_vectors(out, 2, {"fingerprint": "g"}) as kept:
        assert kept is not None
        assert kept.chunks == []
        kept.forget()
    for damage in (
        b'{"rows": 2, "tot',
        b'{"rows": 2, "totals": {}}\n',
    ):  # killed while it wrote; vectors that are not there
        with open(folder / "chunks.jsonl", "ab") as file:
            file.write(damage)
        with kept_vectors(out, 2, settings) as kept:
            assert kept is not None
            assert [(about["totals"]["texts"], found.tolist()) for about, found in kept.read()] == [
                (3, vectors.tolist()),
                (4, vectors[:1].tolist()),
            ]


def test_wrong_data_leaves_nothing_behind(bundle: Bundle, texts: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="does not fit"):
        quietly(bundle, texts, tmp_path / "v.npy", long="error")
    assert [path.name for path in tmp_path.iterdir()] == ["texts.txt"]
