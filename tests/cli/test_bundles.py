"""info, verify, demo."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import anaume
from anaume import checks
from anaume.checks import Check, VerifyReport
from commands import Run


def test_info_says_what_a_bundle_is(run: Run, tiny_bundle_dir: Path) -> None:
    done = run("info", tiny_bundle_dir)
    assert (done.code, done.err) == (0, "")
    bundle = anaume.load(tiny_bundle_dir)
    for expected in (
        "2 layers x 16, 2 heads",
        "mean, scaled to length 1; 16 numbers a text",
        "query 'the dog '",
        "mlm (mlm)",
        "nothing yet: freshly drawn weights",
        "token_embeddings",
        "model.safetensors",
        bundle.fingerprint,
        bundle.tokenizer.fingerprint,
        "check: ",
    ):
        assert expected in done.out


def test_info_as_json_has_the_same(run: Run, tiny_bundle_dir: Path) -> None:
    row = json.loads(run("info", tiny_bundle_dir, "--json").out)
    bundle = anaume.load(tiny_bundle_dir)
    assert row["fingerprints"]["vector"] == bundle.fingerprint
    assert row["parameters"] == sum(p.numel() for p in bundle.model.parameters()) == sum(row["parts"].values())
    assert row["encoder"] == bundle.config.to_dict()
    assert row["embedding"]["prompts"] == {"query": "the dog ", "passage": ""}
    assert row["objectives"] == []
    assert {"name": "config.json", "bytes": (tiny_bundle_dir / "config.json").stat().st_size} in row["files"]


def test_info_says_unknown_for_weights_that_do_not_say(run: Run, tiny_bundle_dir: Path, tmp_path: Path) -> None:
    foreign = tmp_path / "foreign"
    shutil.copytree(tiny_bundle_dir, foreign)
    (foreign / "anaume.json").unlink()
    done = run("info", foreign)
    assert done.code == 0
    assert "trained for  unknown" in done.out


@pytest.mark.parametrize("verb", ["info", "verify"])
def test_a_bundle_that_is_not_there_is_one_line(run: Run, tmp_path: Path, verb: str) -> None:
    done = run(verb, tmp_path / "nowhere")
    assert (done.code, done.out) == (1, "")
    assert "no directory" in done.error()
    empty = run(verb, tmp_path)
    assert (empty.code, empty.out) == (1, "")
    assert "config.json" in empty.error()


def test_a_swapped_vocabulary_is_refused_everywhere(run: Run, tiny_bundle_dir: Path, tmp_path: Path) -> None:
    swapped = tmp_path / "swapped"
    shutil.copytree(tiny_bundle_dir, swapped)
    (swapped / "tokenizer.json").unlink()
    lines = (swapped / "vocab.txt").read_text("utf-8").split("\n")
    lines[10], lines[11] = lines[11], lines[10]
    (swapped / "vocab.txt").write_text("\n".join(lines), "utf-8")
    for command in (["info", swapped], ["tokenize", swapped, "the dog"], ["inspect", "path", swapped, "the dog"]):
        done = run(*command)
        assert (done.code, done.out) == (1, "")
        done.error()


ROWS = (
    Check(1, "saved and loaded", "as it was " * 9, "0", "ok"),
    Check(7, "opened in transformers", "", "1.0e-05", "not checked", "pip install transformers"),
)
FAILED = Check(2, "same text", "1.0e-02", "1.0e-05", "failed", "see the numbers")


def test_verify_shows_numbers_and_exits_by_them(
    run: Run, tiny_bundle_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checks, "verify_bundle", lambda bundle: VerifyReport(ROWS))
    done = run("verify", tiny_bundle_dir)
    assert (done.code, done.err) == (0, "")
    assert "as it was as it was as it was as it was a... " in done.out
    assert ("as it was " * 9).strip() in run("verify", tiny_bundle_dir, "-v").out
    assert "not checked: opened in transformers: pip install transformers" in done.out
    assert "1 kept, 0 failed, 1 not checked" in done.out.splitlines()[-1]
    monkeypatch.setattr(checks, "verify_bundle", lambda bundle: VerifyReport((*ROWS, FAILED)))
    assert run("verify", tiny_bundle_dir).code == 1
    done = run("verify", tiny_bundle_dir, "--json")
    assert done.code == 1
    row = json.loads(done.out)
    assert row["ok"] is False
    assert row["checks"][2]["status"] == "failed"


@pytest.mark.slow
def test_verify_for_real(run: Run, tiny_bundle_dir: Path) -> None:
    done = run("verify", tiny_bundle_dir)
    assert done.code == 0, done.out
    assert " 0 failed" in done.out


def test_demo_passes_its_arguments_on(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import anaume.demo

    asked: list[object] = []

    def tell(report_dir: Path, *, quick: bool = False) -> int:
        asked.append((report_dir, quick))
        return 1 if quick else 0

    monkeypatch.setattr(anaume.demo, "run_demo", tell)
    assert run("demo", "-o", tmp_path).code == 0
    assert run("demo", "--quick", "-o", tmp_path).code == 1
    assert asked == [(tmp_path, False), (tmp_path, True)]
