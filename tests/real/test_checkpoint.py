"""all-MiniLM-L6-v2 as it is published: our numbers beside those of transformers and sentence-transformers."""

import importlib
import random
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

import anaume
from anaume.checks import verify_bundle
from anaume.data import pad
from anaume.data.docstrings import standard_library_paragraphs
from anaume.engines import Batch
from anaume.errors import AnaumeWarning
from helpers import public_data, wheel_checkpoint

pytestmark = pytest.mark.real

BOUND = 1e-5


@pytest.fixture(scope="module")
def directory():
    return wheel_checkpoint()


@pytest.fixture(scope="module")
def bundle(directory):
    return anaume.load(directory, device="cpu")


@pytest.fixture(scope="module")
def library():
    """All paragraphs of the standard library's docstrings."""
    return standard_library_paragraphs()


@pytest.fixture(scope="module")
def paragraphs(library):
    """300 of mixed length: every fortieth by length, so that the shortest and the longest are among them."""
    texts = sorted((paragraph.text for paragraph in library), key=len)
    chosen = texts[:: len(texts) // 298][:298] + texts[-2:]
    random.Random(0).shuffle(chosen)
    return chosen


@pytest.fixture(scope="module")
def vectors(bundle, paragraphs):
    with pytest.warns(AnaumeWarning, match="longer than 256 tokens"):
        return bundle.embed(paragraphs)


@pytest.fixture(scope="module")
def saved(bundle, tmp_path_factory):
    place = tmp_path_factory.mktemp("saved") / "bundle"
    bundle.save(place)
    return place


def guest(name):
    """A parity reference; what it warns about is its own affair."""
    pytest.importorskip(name)
    logging = importlib.import_module("transformers.utils.logging")
    logging.disable_progress_bar()
    return importlib.import_module(name)


@pytest.fixture(autouse=True)
def _offline(monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


def apart(one, other):
    return float(np.abs(np.asarray(one, dtype=np.float64) - other).max())


# -- numbers -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["published", "saved by us"])
def test_last_hidden_state_and_ids_are_those_of_transformers(bundle, directory, saved, paragraphs, where):
    transformers = guest("transformers")
    place = directory if where == "published" else saved
    paragraphs = paragraphs if where == "published" else paragraphs[:100]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = transformers.AutoModel.from_pretrained(place, local_files_only=True).eval()
        tokenizer = transformers.AutoTokenizer.from_pretrained(place, local_files_only=True)
    worst = 0.0
    for start in range(0, len(paragraphs), 25):  # mixed lengths: most rows are padded, in theirs and in ours
        texts = paragraphs[start : start + 25]
        theirs = tokenizer(texts, padding=True, truncation=True, max_length=256, return_tensors="pt")
        encodings = bundle.tokenizer.encode_batch(texts, max_length=256)
        token_ids, mask = pad([encoding.token_ids for encoding in encodings], bundle.tokenizer.pad_id)
        assert theirs["input_ids"].tolist() == token_ids.tolist()
        assert theirs["attention_mask"].bool().tolist() == mask.tolist()
        with torch.inference_mode():
            wanted = model(**theirs).last_hidden_state.numpy()
        ours = bundle.engine.hidden_states(Batch(token_ids, mask)).last_hidden_state.numpy()
        worst = max(worst, apart(ours[mask], wanted[mask]))
    assert worst <= BOUND


@pytest.mark.parametrize("where", ["published", "saved by us"])
def test_vectors_are_those_of_sentence_transformers(directory, saved, paragraphs, vectors, where):
    library = guest("sentence_transformers")
    place = directory if where == "published" else saved
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = library.SentenceTransformer(str(place), device="cpu", local_files_only=True)
        theirs = model.encode(paragraphs, show_progress_bar=False)
    assert model.max_seq_length == 256
    assert apart(vectors, theirs) <= BOUND


def test_every_tensor_is_used_and_saved_as_it_came(bundle, directory, saved):
    from safetensors.torch import load_file

    theirs, ours = load_file(directory / "model.safetensors"), load_file(saved / "model.safetensors")
    ids = "embeddings.position_ids"
    assert ours.keys() == theirs.keys() - {ids}
    assert all(torch.equal(ours[name], theirs[name].float()) for name in ours)
    assert anaume.load(saved).fingerprint == bundle.fingerprint


def test_the_name_is_enough(directory):
    bundle = anaume.load("all-MiniLM-L6-v2")
    assert bundle.embed(["a text", "another"]).shape == (2, 384)
    assert (bundle.embedding.pooling, bundle.embedding.normalize, bundle.embedding.max_length) == ("mean", True, 256)
    assert bundle.parts.record.objectives == ("unknown",)


def test_verify_passes(bundle):
    report = verify_bundle(bundle)
    assert [row for row in report.rows if row.status == "failed"] == []


def test_bfloat16_keeps_the_direction(directory, paragraphs, vectors):
    with pytest.warns(AnaumeWarning):
        rounded = anaume.load(directory, precision="bfloat16", device="cpu").embed(paragraphs)
    assert (rounded * vectors).sum(axis=1).min() / np.linalg.norm(rounded, axis=1).max() > 0.999
    assert apart(rounded, vectors) < 0.02


# -- same text, same answer --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_any_company_gives_the_same_vectors(bundle, paragraphs, vectors, seed):
    chance = random.Random(seed)
    order = chance.sample(range(len(paragraphs)), 60)
    chunks = []
    while sum(map(len, chunks)) < len(order):
        start = sum(map(len, chunks))
        chunks.append(order[start : start + chance.choice([1, 2, 3, 17])])
    reports = bundle.embed_stream([[paragraphs[index] for index in chunk] for chunk in chunks], fingerprint="")
    found = np.concatenate([report.vectors for report in reports])
    assert apart(found, vectors[order]) <= BOUND


def test_any_padding_gives_the_same_vectors(bundle):
    tokenizer, texts = bundle.tokenizer, ["plum jam", "a", "", "the bank of the river"]
    alone = bundle.embed(texts)
    for width in (9, 64, 256, 512):
        ids, mask = pad(
            [encoding.token_ids for encoding in tokenizer.encode_batch(texts)], tokenizer.pad_id, seq_len=width
        )
        assert apart(bundle.engine.embed(Batch(ids, mask)), alone) <= BOUND
        assert apart(bundle.engine.embed(Batch(ids, np.ones_like(mask))), alone) > 1e-2, "the test could not see a leak"


def test_sixteen_threads_at_once_give_the_same_vectors(bundle, paragraphs, vectors):
    turns = [random.Random(seed).sample(range(len(paragraphs)), 12) for seed in range(16)]

    def embed(turn):
        texts = [paragraphs[index] for index in turn]
        return next(bundle.embed_stream([texts], fingerprint="")).vectors

    with ThreadPoolExecutor(16) as threads:
        for turn, found in zip(turns, threads.map(embed, turns), strict=True):
            assert apart(found, vectors[turn]) <= BOUND


# -- what the model does not see ---------------------------------------------------------------------------------------


def test_a_long_document_says_so_or_is_found_by_its_tail(bundle):  # LIM-02
    filler = "filler words about nothing of note stand here " * 75
    whole, shorter = filler + "zebra unicorn", filler.strip()
    with pytest.warns(AnaumeWarning, match="2 of 2 texts were longer than 256 tokens"):
        cut = bundle.embed([whole, shorter])
    assert apart(cut[0], cut[1]) <= BOUND, "cut: the tail can't count"
    windows = bundle.embed([whole, shorter], long="window")
    assert apart(windows[0], windows[1]) > 1e-3
    query = bundle.embed(["zebra unicorn"])
    found, without = anaume.similarity(query, windows)[0]
    assert found > without + 0.02
    with pytest.warns(AnaumeWarning):
        report = bundle.embed_report([whole, "short"])
    pieces = bundle.tokenizer.encode(whole).pieces
    assert report.coverage.tolist() == [pytest.approx(254 / pieces), 1.0]


def test_empty_texts_are_finite_and_leave_hello_alone(bundle):  # EMB-02
    vectors = bundle.embed(["", "hello", "\u200b"])
    assert np.isfinite(vectors).all()
    assert apart(vectors[1:2], bundle.embed(["hello"])) <= BOUND
    assert apart(vectors[0], vectors[2]) <= BOUND, "an invisible text is an empty one"


def test_cosines_stay_in_their_range_and_identical_texts_rank_first(bundle, paragraphs, vectors):  # EMB-05
    cosines = anaume.similarity(vectors, vectors)
    assert cosines.max() <= 1.0
    assert cosines.min() >= -1.0
    assert np.array_equal(cosines.argmax(axis=1), np.arange(len(paragraphs)))


def test_japanese_is_said_to_be_lost(bundle):
    with pytest.warns(AnaumeWarning) as caught:
        vectors = bundle.embed(["バスに乗る", "ハスに乗る"])
    assert apart(vectors[0], vectors[1]) <= BOUND, "this vocabulary can't tell a bus from a lotus"
    message = str(caught[0].message)
    assert "バス becomes ハス" in message
    with pytest.warns(AnaumeWarning, match=r"% of the pieces .* are unknown"):
        bundle.embed(["銀行で傘を借りた。"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        bundle.embed(["The bus leaves at eight."])


# -- meaning -----------------------------------------------------------------------------------------------------------

QUESTIONS = {
    "run something later, after a delay": ("threading.Timer", "call_later", "call_at", "sched.", ".after"),
    "which files are in a folder": ("listdir", "os.walk", "os.fwalk", "scandir", "glob", "pathlib", "dircmp"),
    "put words into alphabetical order": ("sort", "bisect", "heapq", "order", "locale", "strcoll"),
}


@pytest.fixture(scope="module")
def every_vector(bundle, library):
    """Some 2,000 paragraphs, with everything that could answer the questions among them."""
    wanted = [name for names in QUESTIONS.values() for name in names]
    likely = [paragraph for paragraph in library if any(name in paragraph.where for name in wanted)]
    others = random.Random(0).sample(library, 1200)
    chosen = list({paragraph.text: paragraph for paragraph in [*likely, *others]}.values())
    reports = bundle.embed_stream([[paragraph.text for paragraph in chosen]], fingerprint="")
    return chosen, next(reports).vectors


@pytest.mark.parametrize("question", QUESTIONS)
def test_questions_find_what_is_meant(bundle, every_vector, question):
    paragraphs, vectors = every_vector
    cosines = anaume.similarity(bundle.embed([question]), vectors)[0]
    best = [paragraphs[index] for index in np.argsort(-cosines)[:5]]
    assert any(name in paragraph.where for paragraph in best for name in QUESTIONS[question]), best


def test_similarity_scores_of_sentence_pairs_are_those_of_sentence_transformers(bundle, directory):
    library = guest("sentence_transformers")
    from scipy.stats import spearmanr

    with open(public_data("glue/STS-B/dev.tsv"), encoding="utf-8") as file:
        rows = [line.rstrip("\n").split("\t") for line in file][1:]
    assert len(rows) == 1500
    first, second, gold = [row[7] for row in rows], [row[8] for row in rows], [float(row[9]) for row in rows]

    def score(embed):
        a, b = embed(first), embed(second)
        return spearmanr((a * b).sum(axis=1), gold).statistic

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = library.SentenceTransformer(str(directory), device="cpu", local_files_only=True)
        theirs = score(lambda texts: model.encode(texts, show_progress_bar=False))
    ours = score(bundle.embed)
    assert ours == pytest.approx(theirs, abs=5e-5)
    assert ours == pytest.approx(0.8672, abs=5e-4), "measured of the published model: 0.8672"
