import json
import math
import re
import subprocess
import sys
from pathlib import Path

import pytest

from helpers import PATIENCE

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.fixture(scope="module")
def page() -> str:
    """What the one-page BERT prints; warnings are errors there too."""
    command = [sys.executable, "-W", "error", str(EXAMPLES / "one_page_bert.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


def numbers(pattern: str, page: str) -> list[float]:
    found = re.search(pattern, page, re.MULTILINE)
    assert found, f"{pattern} is not on the page:\n{page}"
    return [float(number) for number in found.groups()]


def test_it_fits_on_a_page() -> None:
    assert len((EXAMPLES / "one_page_bert.py").read_text().splitlines()) <= 150


def test_tokens_and_segments(page: str) -> None:
    lines = page.splitlines()
    assert lines[0].split(maxsplit=1) == ["tokens", "[CLS] my dog is cute [SEP] he likes playing in the garden [SEP]"]
    assert len(lines[1].split()) == 2 + 13
    assert lines[2].split() == ["segments", *"0000001111111"]


def test_the_three_tables_are_summed(page: str) -> None:
    assert "input embeddings (1, 13, 64) = LayerNorm(token + segment + position): True" in page


def test_one_flag_makes_it_gpt(page: str) -> None:
    assert "BERT: blocks (1, 13, 64), token 1 sees" + 13 * " 1" in page
    assert "GPT: blocks (1, 13, 64), token 1 sees" + 2 * " 1" + 11 * " 0" in page


def test_losses_start_at_a_guess_and_fall(page: str) -> None:
    mlm, log_v, nsp = numbers(r"^before: mlm ([\d.]+) \(ln V = ([\d.]+)\), nsp ([\d.]+)", page)
    assert mlm == pytest.approx(log_v, rel=0.02)
    assert nsp == pytest.approx(math.log(2), rel=0.02)
    mlm_after, nsp_after = numbers(r"^after: mlm ([\d.]+), nsp ([\d.]+)$", page)
    assert mlm_after < mlm / 2
    assert nsp_after < nsp


def test_the_blank_is_filled_and_texts_are_classified(page: str) -> None:
    assert "my [MASK] is cute -> dog" in page
    (loss,) = numbers(r"^classes \(16, 9, 64\) -> \(16, 64\) -> \(16, 2\), loss ([\d.]+)$", page)
    assert loss < 0.2
    assert "my dog is cute -> animals" in page
    assert "right: 16 of 16" in page


def test_a_bert_of_one_s_own_from_a_folder_of_texts(tmp_path: Path) -> None:
    texts = tmp_path / "texts"
    texts.mkdir()
    for number in range(30):
        (texts / f"{number}.txt").write_text(f"The dog number {number} is cute. He likes playing in the garden.\n" * 4)
    command = [sys.executable, str(EXAMPLES / "own_bert.py"), str(texts), str(tmp_path / "out"), "0.02"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert re.match(r"\d+ documents, [\d,]+ tokens to train on", lines[0])
    assert re.match(r"[\d,]+ steps", lines[1])
    assert len(lines) == 5
    assert all(re.match(r"0\.\d{3}  \S+", line) for line in lines[2:])


@pytest.mark.slow
def test_the_whole_way_from_raw_text_to_predictions(tmp_path: Path) -> None:
    pytest.importorskip("fugashi")
    texts = str(tmp_path / "texts")
    for command in (["japanese_texts.py", texts], ["journey.py", texts, str(tmp_path / "out")]):
        line = [sys.executable, str(EXAMPLES / command[0]), *command[1:]]
        done = subprocess.run(line, capture_output=True, text=True, check=False, timeout=PATIENCE)
        assert done.returncode == 0, done.stderr
    (loss,) = numbers(r"^pretraining: 300 steps, held-out loss ([\d.]+)", done.stdout)
    assert loss < 4.71  # what knowing the frequencies of words alone gives
    assert min(numbers(r"^fine-tuning: accuracy of each seed ([\d.]+) ([\d.]+)$", done.stdout)) > 0.6
    assert [line.split()[0] for line in done.stdout.splitlines()[-2:]] == ["配送", "アカウント"]


def test_the_japanese_texts_hold_what_they_say(tmp_path: Path) -> None:
    subprocess.run([sys.executable, str(EXAMPLES / "japanese_texts.py"), str(tmp_path)], check=True, timeout=PATIENCE)
    texts = {part: (tmp_path / f"tickets-{part}.tsv").read_text().splitlines()[1:] for part in ("train", "dev")}
    assert [len(rows) for rows in texts.values()] == [200, 60]
    assert not set(texts["train"]) & set(texts["dev"])
    for part in ("train", "dev"):
        for line in (tmp_path / f"entities-{part}.jsonl").read_text().splitlines():
            row = json.loads(line)
            for entity in row["entities"]:
                assert row["text"][entity["start"] : entity["end"]]
                assert entity["label"] in {"人名", "地名", "組織"}
