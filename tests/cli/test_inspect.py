"""inspect path, word, attention, neighbours, sizes, curves."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import anaume
from anaume.inspection import trace_attention, trace_path
from commands import Run

SENSES = "river\tthe bank of the river\nriver\ta river bank\n\nmoney\tthe bank lent money\nmoney\tmoney in the bank\n"


@pytest.fixture
def sentences(tmp_path: Path) -> Path:
    path = tmp_path / "senses.tsv"
    path.write_text(SENSES, encoding="utf-8")
    return path


def test_path_shows_rows_then_stations(run: Run, tiny_bundle_dir: Path) -> None:
    done = run("inspect", "path", tiny_bundle_dir, "my dog", "--pair", "likes")
    assert (done.code, done.err) == (0, "")
    rows, stations = done.out.split("\n\n")
    assert [line.split()[0] for line in rows.splitlines()[1:]] == ["[CLS]", "my", "dog", "[SEP]", "likes", "[SEP]"]
    shown = [
        (line.split("(")[0].strip(), line[line.index("(") : line.index(")") + 1]) for line in stations.splitlines()[1:]
    ]
    assert shown == [
        ("token_ids", "(1, 6)"),
        ("token_embeddings", "(1, 6, 16)"),
        ("segment_embeddings", "(1, 6, 16)"),
        ("position_embeddings", "(1, 6, 16)"),
        ("input", "(1, 6, 16)"),
        ("layer 1", "(1, 6, 16)"),
        ("layer 2", "(1, 6, 16)"),
        ("embedding", "(1, 16)"),
    ]


def test_path_as_json_is_the_trace(run: Run, tiny_bundle_dir: Path) -> None:
    row = json.loads(run("inspect", "path", tiny_bundle_dir, "my dog", "--json").out)
    path = trace_path(anaume.load(tiny_bundle_dir), "my dog")
    assert row["token_ids"] == [token.token_id for token in path.rows]
    assert [station["length"] for station in row["stations"]] == [station.length for station in path.stations]


def test_path_of_a_text_over_the_position_table_is_refused(run: Run, tiny_bundle_dir: Path) -> None:
    done = run("inspect", "path", tiny_bundle_dir, "dog " * 40)
    assert (done.code, done.out) == (1, "")
    assert "40 pieces" in done.error()


def test_word_by_given_senses(run: Run, tiny_bundle_dir: Path, sentences: Path) -> None:
    done = run("inspect", "word", tiny_bundle_dir, "bank", sentences)
    assert (done.code, done.err) == (0, "")
    head, layers, nearest, last = done.out.split("\n\n")
    assert head == "bank: 4 sentences, 2 senses (as given)"
    assert layers.splitlines()[1].split() == ["token", "1.000", "1.000"]
    assert [line.split()[0] for line in layers.splitlines()[1:]] == ["token", "input", "layer", "layer"]
    assert len(nearest.splitlines()) == 5
    assert last.startswith("The token row is 1.000 everywhere: one row of the table for every sense.")


def test_word_by_clustering_from_stdin_and_as_json(run: Run, tiny_bundle_dir: Path) -> None:
    bare = "\n".join(line.split("\t")[-1] for line in SENSES.splitlines()).encode()
    row = json.loads(run("inspect", "word", tiny_bundle_dir, "bank", "-", "--json", stdin=bare).out)
    assert row["clustered"] is True
    assert [layer["layer"] for layer in row["layers"]] == ["token", "input", "layer 1", "layer 2"]
    assert len(row["sentences"]) == 4
    one = run("inspect", "word", tiny_bundle_dir, "bank", "-", "--clusters", 1, "--json", stdin=bare)
    assert json.loads(one.out)["layers"][0]["across"] is None, "no other sense: no number, and no NaN in JSON"


def test_pictures_are_drawn(run: Run, tiny_bundle_dir: Path, sentences: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    for command in (["word", tiny_bundle_dir, "bank", sentences], ["attention", tiny_bundle_dir, "my dog"]):
        picture = tmp_path / f"{command[0]}.svg"
        done = run("inspect", *command, "--plot", picture)
        assert (done.code, done.err) == (0, f"picture: {picture}\n")
        assert picture.read_text("utf-8").startswith("<?xml")


def test_attention_over_layers_and_in_one(run: Run, tiny_bundle_dir: Path) -> None:
    done = run("inspect", "attention", tiny_bundle_dir, "my dog", "--from", "[CLS]")
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines()[0].endswith("from [CLS], mean over heads")
    assert [line.split()[1] for line in done.out.splitlines()[2:]] == ["[CLS]", "my", "dog", "[SEP]"]
    one = run("inspect", "attention", tiny_bundle_dir, "my dog", "--layer", 2, "--head", 1).out
    for line in one.splitlines()[2:]:
        assert abs(sum(int(cell) for cell in line.split()[2:]) - 100) <= 2


def test_attention_as_json_is_the_trace(run: Run, tiny_bundle_dir: Path) -> None:
    asked = ("inspect", "attention", tiny_bundle_dir, "my dog", "--json")
    weights = trace_attention(anaume.load(tiny_bundle_dir), "my dog").weights
    assert json.loads(run(*asked).out)["weights"] == weights.tolist()
    row = json.loads(run(*asked, "--layer", 2, "--head", 1, "--from", 2).out)
    assert (row["layers"], row["heads"], row["from"]) == ([2], [1], [2])
    assert row["weights"] == [[[weights[1, 0, 2].tolist()]]]


def test_neighbours_static_and_contextual(run: Run, tiny_bundle_dir: Path, sentences: Path) -> None:
    done = run("inspect", "neighbours", tiny_bundle_dir, "bank", "--top-k", 3)
    assert (done.code, done.err) == (0, "")
    assert len(done.out.splitlines()) == 5
    asked = ("inspect", "neighbours", tiny_bundle_dir, "bank", sentences, "--in", "the old bank")
    assert "in sentences (last layer)" in run(*asked).out
    row = json.loads(run(*asked, "--json").out)
    assert row["tokens"] == ["bank"]
    assert {found["word"] for found in row["contextual"]} >= {"river", "bank"}


def test_sizes_named_and_of_a_bundle(run: Run, tiny_bundle_dir: Path) -> None:
    done = run("inspect", "sizes")
    assert (done.code, done.err) == (0, "")
    assert "110,104,890" in done.out, "BERT base with its masked-word head and pooler"
    assert [row["name"] for row in json.loads(run("inspect", "sizes", "--vocab-size", 100, "--json").out)] == [
        "tiny",
        "mini",
        "small",
        "medium",
        "base",
        "large",
    ]
    (row,) = json.loads(run("inspect", "sizes", tiny_bundle_dir, "--json").out)
    assert row["parameters"] == sum(row["parts"].values()) == row["memory_float32"] // 4
    assert "tiny-bundle: 2 layers x 16" in run("inspect", "sizes", tiny_bundle_dir).out


@pytest.mark.parametrize(
    ("arguments", "code", "expected"),
    [
        (["path", "{none}", "text"], 1, "no directory"),
        (["word", "{bundle}", "bank", "{none}"], 1, "No such file"),
        (["word", "{bundle}", "zebra", "{sentences}"], 1, "does not hold the word 'zebra'"),
        (["word", "{bundle}", "bank", "{mixed}"], 1, "row 2: a sense before a tab"),
        (["word", "{bundle}", "bank", "{sentences}", "--clusters", "0"], 2, "--clusters"),
        (["word", "{bundle}", "bank", "{sentences}", "--plot", "picture.gif"], 1, ".png, .svg or .pdf"),
        (["attention", "{bundle}", "my dog", "--from", "cat"], 1, "no token of the text is 'cat'"),
        (["attention", "{bundle}", "my dog", "--from", "9"], 2, "0 .. 3"),
        (["attention", "{bundle}", "my dog", "--layer", "3"], 2, "from 1 to 2"),
        (["attention", "{bundle}", "my dog", "--head", "0"], 2, "from 1 to 2"),
        (["attention", "{bundle}", "my dog", "--head", "1", "--plot", "a.png"], 2, "leave out"),
        (["neighbours", "{bundle}", "bank", "{sentences}"], 2, "--in SENTENCE and FILE go together"),
        (["neighbours", "{bundle}", "bank", "{sentences}", "--in", "a dog"], 1, "does not hold"),
        (["neighbours", "{bundle}", "bank", "--top-k", "0"], 2, "--top-k"),
        (["neighbours", "{bundle}", " "], 1, "no token"),
        (["sizes", "{bundle}", "--vocab-size", "9"], 2, "named sizes"),
        (["sizes", "--vocab-size", "0"], 2, "vocab_size must be positive"),
    ],
)
def test_inspect_refuses(
    run: Run, tiny_bundle_dir: Path, sentences: Path, tmp_path: Path, arguments: list[str], code: int, expected: str
) -> None:
    mixed = tmp_path / "mixed.txt"
    mixed.write_text("a bank\nriver\ta bank\n", encoding="utf-8")
    places = {"bundle": tiny_bundle_dir, "none": tmp_path / "none", "sentences": sentences, "mixed": mixed}
    done = run("inspect", *(part.format(**places) for part in arguments))
    assert (done.code, done.out) == (code, "")
    assert expected in done.error()


@pytest.mark.parametrize("out", [None, "elsewhere.svg"])
def test_curves_are_drawn_of_a_runs_metrics(run: Run, tmp_path: Path, out: str | None) -> None:
    pytest.importorskip("matplotlib")
    row = {"step": 1, "fraction": 0.5, "seconds": 2.0, "token_loss": 8.0, "accuracy": 0.1, "learning_rate": 1e-3}
    (tmp_path / "metrics.jsonl").write_text(json.dumps(row | {"tokens": 512}) + "\n", "utf-8")
    picture = tmp_path / (out or "curves.png")
    done = run("inspect", "curves", tmp_path, *([] if out is None else ["-o", picture]))
    assert (done.code, done.out, done.err) == (0, f"{picture}\n", "")
    assert picture.read_bytes().startswith(b"\x89PNG" if out is None else b"<?xml")


def test_curves_of_what_is_no_run_are_refused(run: Run, tmp_path: Path) -> None:
    done = run("inspect", "curves", tmp_path)
    assert (done.code, done.out) == (1, "")
    assert "holds no metrics.jsonl; give the folder of a run" in done.error()
