import math
import shutil

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from anaume.model.masking import IGNORED, generate_random_mask

PAD, CLS, SEP, MASK = 0, 2, 3, 4
VOCAB = 30522


def ordinary(batch: int, seq_len: int) -> torch.Tensor:
    return torch.randint(5, VOCAB, (batch, seq_len))


@settings(max_examples=60, deadline=None)
@given(
    rows=st.integers(1, 40).flatmap(lambda n: st.lists(st.lists(st.booleans(), min_size=n, max_size=n), min_size=1)),
    rate=st.one_of(st.sampled_from([0.01, 0.15, 0.25, 0.5, 0.85, 0.99]), st.floats(0.01, 0.99)),
)
def test_each_row_gets_its_exact_share_of_maskable_places(rows: list[list[bool]], rate: float) -> None:
    maskable = torch.tensor(rows)
    token_ids = ordinary(*maskable.shape)
    drawn = generate_random_mask(token_ids, maskable, mask_id=MASK, vocab_size=VOCAB, rate=rate)
    assert drawn.positions.shape == drawn.labels.shape == (len(rows), max(1, round(rate * maskable.shape[1])))
    for row, may, positions, labels, result in zip(
        token_ids, maskable, drawn.positions, drawn.labels, drawn.token_ids, strict=True
    ):
        n = int(may.sum())
        used = labels != IGNORED
        chosen = positions[used]
        assert len(chosen) == (max(1, round(rate * n)) if n else 0)
        assert len(set(chosen.tolist())) == len(chosen)
        assert may[chosen].all(), "only maskable places are chosen"
        assert torch.equal(labels[used], row[chosen]), "the label is the token that stood there"
        untouched = torch.ones_like(may)
        untouched[chosen] = False
        assert torch.equal(result[untouched], row[untouched])


@pytest.mark.parametrize("hundredths", range(1, 100, 14))
def test_the_share_is_rounded_as_python_rounds(hundredths: int) -> None:
    """float32 puts some products on the other side of a half: 0.15 x 190 is 28.5, rounded to even 28, there 29."""
    rate = hundredths / 100
    n = torch.arange(1, 513)
    maskable = torch.arange(512)[None, :] < n[:, None]
    drawn = generate_random_mask(torch.full((512, 512), 9), maskable, mask_id=MASK, vocab_size=10, rate=rate)
    counts = (drawn.labels != IGNORED).sum(1).tolist()
    assert counts == [max(1, round(rate * int(size))) for size in n]


def test_special_tokens_and_padding_are_never_chosen() -> None:
    token_ids = ordinary(200, 32)
    token_ids[:, 0], token_ids[:, 20], token_ids[:, 21:] = CLS, SEP, PAD
    maskable = token_ids >= 5
    drawn = generate_random_mask(token_ids, maskable, mask_id=MASK, vocab_size=VOCAB)
    assert torch.equal(drawn.token_ids[~maskable], token_ids[~maskable])
    assert (drawn.labels[drawn.labels != IGNORED] >= 5).all()
    assert ((drawn.labels != IGNORED).sum(1) == round(0.15 * 19)).all()


def test_eighty_ten_ten_over_a_million_places() -> None:
    token_ids = ordinary(2048, 512)
    maskable = torch.ones_like(token_ids, dtype=torch.bool)
    drawn = generate_random_mask(token_ids, maskable, mask_id=MASK, vocab_size=VOCAB, seed=1)
    results = drawn.token_ids.gather(1, drawn.positions)
    n = results.numel()
    assert n == 2048 * 77
    hidden, kept = results == MASK, results == drawn.labels
    replaced = ~hidden & ~kept
    # A random token is the hidden one, or [MASK], once in VOCAB times.
    for found, share in ((hidden, 0.8 + 0.1 / VOCAB), (kept, 0.1 + 0.1 / VOCAB), (replaced, 0.1 - 0.2 / VOCAB)):
        assert abs(float(found.float().mean()) - share) < 4 * math.sqrt(share * (1 - share) / n)
    random_ids = results[replaced].double()
    assert abs(random_ids.mean() - VOCAB / 2) < 4 * VOCAB / math.sqrt(12 * len(random_ids))
    assert random_ids.min() < 20
    assert random_ids.max() > VOCAB - 20

    each_place = torch.zeros(512).scatter_add_(0, drawn.positions.flatten(), torch.ones(n))
    share = 77 / 512
    error = math.sqrt(share * (1 - share) / 2048)
    assert (each_place / 2048 - share).abs().max() < 5 * error, "every place is chosen as often"
    chosen_pairs = torch.zeros(2048, 512).scatter_(1, drawn.positions, 1.0)
    neighbours = (chosen_pairs[:, 1:] * chosen_pairs[:, :-1]).mean()
    assert float(neighbours) == pytest.approx(77 * 76 / (512 * 511), rel=0.05), "and independently of its neighbour"


def test_seed_step_row_and_place_decide_the_mask_and_nothing_else() -> None:
    token_ids = ordinary(8, 64)
    maskable = torch.ones_like(token_ids, dtype=torch.bool)

    def drawn(seed: int = 0, step: int = 0) -> list[list[list[int]]]:
        mask = generate_random_mask(token_ids, maskable, mask_id=MASK, vocab_size=VOCAB, seed=seed, step=step)
        return [mask.token_ids.tolist(), mask.positions.tolist(), mask.labels.tolist()]

    state = torch.get_rng_state()
    assert drawn() == drawn()
    assert drawn(seed=1) != drawn()
    assert drawn(step=1) != drawn()
    assert drawn(seed=1) != drawn(step=1)
    assert torch.equal(state, torch.get_rng_state()), "the global generator is left alone"


def test_a_row_has_its_mask_whichever_batch_holds_it() -> None:
    token_ids = ordinary(12, 64)
    maskable = torch.ones_like(token_ids, dtype=torch.bool)
    word_ids = (torch.rand(12, 64) < 0.6).long().cumsum(1)
    for units in ({}, {"word_ids": word_ids}, {"span_length": 3.0}):
        whole = generate_random_mask(token_ids, maskable, mask_id=MASK, vocab_size=VOCAB, seed=3, step=9, **units)
        rows = torch.tensor([10, 1, 7])
        part_units = {name: value[rows] if isinstance(value, torch.Tensor) else value for name, value in units.items()}
        part = generate_random_mask(
            token_ids[rows], maskable[rows], mask_id=MASK, vocab_size=VOCAB, seed=3, step=9, rows=rows, **part_units
        )
        assert torch.equal(part.token_ids, whole.token_ids[rows])
        assert torch.equal(part.labels, whole.labels[rows])


def test_masks_of_successive_steps_are_independent() -> None:
    maskable = torch.ones(256, 100, dtype=torch.bool)
    token_ids = torch.full((256, 100), 9)
    chosen = []
    for step in range(2):
        drawn = generate_random_mask(token_ids, maskable, mask_id=MASK, vocab_size=10, step=step)
        chosen.append(torch.zeros(256, 100).scatter_(1, drawn.positions, 1.0))
    both = float((chosen[0] * chosen[1]).mean())
    assert both == pytest.approx(0.15**2, rel=0.06)


def test_whole_words_move_together_and_never_pass_the_budget() -> None:
    """Cases MLM-04: a word is hidden whole or not at all; one that would pass the number of pieces is skipped."""
    generator = torch.Generator().manual_seed(0)
    token_ids = ordinary(400, 60)
    word_ids = (torch.rand(400, 60, generator=generator) < 0.55).long().cumsum(1)
    maskable = torch.ones_like(token_ids, dtype=torch.bool)
    maskable[:, 0] = False
    drawn = generate_random_mask(token_ids, maskable, mask_id=MASK, vocab_size=VOCAB, word_ids=word_ids)
    budget = round(0.15 * 59)
    counts = (drawn.labels != IGNORED).sum(1)
    assert counts.max() == budget
    assert counts.float().mean() > 0.95 * budget, "skipped words leave room that shorter ones fill"
    for row in range(400):
        hidden = set(drawn.positions[row][drawn.labels[row] != IGNORED].tolist())
        for word in set(word_ids[row].tolist()):
            places = {place for place in range(1, 60) if word_ids[row, place] == word}
            assert places <= hidden or not places & hidden


def test_a_word_longer_than_the_budget_is_skipped_and_the_next_one_taken() -> None:
    token_ids = ordinary(200, 10)
    word_ids = torch.tensor([[0] * 6 + [1, 1, 2, 3]]).expand(200, -1)
    drawn = generate_random_mask(token_ids, token_ids > 0, mask_id=MASK, vocab_size=VOCAB, rate=0.2, word_ids=word_ids)
    hidden = [tuple(sorted(row[used].tolist())) for row, used in zip(drawn.positions, drawn.labels >= 0, strict=True)]
    assert set(hidden) == {(6, 7), (8, 9)}


def test_spans_are_runs_of_about_the_mean_length() -> None:
    token_ids = ordinary(500, 200)
    maskable = torch.ones_like(token_ids, dtype=torch.bool)
    drawn = generate_random_mask(token_ids, maskable, mask_id=MASK, vocab_size=VOCAB, span_length=4.0)
    assert ((drawn.labels != IGNORED).sum(1).float().mean()) > 29
    hidden = torch.zeros(500, 200).scatter_(1, drawn.positions, (drawn.labels != IGNORED).float())
    runs = (hidden[:, 1:] > hidden[:, :-1]).sum() + hidden[:, 0].sum()
    assert 3.0 < float(hidden.sum() / runs) < 5.5


def test_wrong_shares_and_units_are_refused() -> None:
    token_ids = ordinary(2, 8)
    for wrong in ({"mask_share": 0.9, "random_share": 0.2}, {"span_length": 0.5}, {"word_ids": token_ids[:, :3]}):
        with pytest.raises(ValueError, match=r"share|span_length|word_ids"):
            generate_random_mask(token_ids, token_ids > 0, mask_id=MASK, vocab_size=VOCAB, **wrong)


def test_the_input_is_left_alone() -> None:
    token_ids = ordinary(8, 64)
    before = token_ids.clone()
    generate_random_mask(token_ids, token_ids >= 0, mask_id=MASK, vocab_size=VOCAB)
    assert torch.equal(token_ids, before)


def test_rows_with_nothing_to_mask() -> None:
    token_ids = ordinary(3, 10)
    maskable = torch.zeros_like(token_ids, dtype=torch.bool)
    maskable[1, 3] = True
    drawn = generate_random_mask(token_ids, maskable, mask_id=MASK, vocab_size=VOCAB)
    assert (drawn.labels[[0, 2]] == IGNORED).all()
    assert torch.equal(drawn.token_ids[[0, 2]], token_ids[[0, 2]])
    assert drawn.labels[1].tolist() == [int(token_ids[1, 3]), IGNORED]
    assert drawn.positions[1, 0] == 3


def test_empty_batches() -> None:
    for shape in ((0, 5), (2, 0)):
        token_ids = torch.zeros(shape, dtype=torch.long)
        drawn = generate_random_mask(token_ids, token_ids > 0, mask_id=MASK, vocab_size=VOCAB)
        assert drawn.token_ids.shape == shape
        assert (drawn.labels == IGNORED).all()


@pytest.mark.parametrize("rate", [0.0, 1.0, -0.1, 15, math.nan])
def test_a_wrong_rate_is_refused(rate: float) -> None:
    token_ids = ordinary(1, 5)
    with pytest.raises(ValueError, match="rate must lie between 0 and 1"):
        generate_random_mask(token_ids, token_ids > 0, mask_id=MASK, vocab_size=VOCAB, rate=rate)


@pytest.mark.parametrize(
    "maskable", [torch.ones(2, 4).bool(), torch.ones(5).bool(), torch.ones(2, 5), torch.ones(2, 5).long()]
)
def test_a_wrong_maskable_is_refused(maskable: torch.Tensor) -> None:
    with pytest.raises(ValueError, match=r"maskable \(bool\) must both be \(batch, seq_len\)"):
        generate_random_mask(ordinary(2, 5), maskable, mask_id=MASK, vocab_size=VOCAB)


def test_one_dimensional_token_ids_are_refused() -> None:
    with pytest.raises(ValueError, match="must both be"):
        generate_random_mask(torch.zeros(5).long(), torch.ones(5).bool(), mask_id=MASK, vocab_size=VOCAB)


def compile_and_check(backend: str) -> None:
    """No shape depends on the data, and nothing waits for the device: fullgraph would refuse either."""
    torch.compiler.reset()
    compiled = torch.compile(generate_random_mask, fullgraph=True, backend=backend)
    token_ids = ordinary(4, 20)
    for step in range(3):
        now = torch.tensor(step)
        drawn = compiled(token_ids, token_ids > 0, mask_id=MASK, vocab_size=VOCAB, step=now)
        eager = generate_random_mask(token_ids, token_ids > 0, mask_id=MASK, vocab_size=VOCAB, step=step)
        assert torch.equal(drawn.token_ids, eager.token_ids)
    assert ((drawn.labels != IGNORED).sum(1) == 3).all()
    assert torch.equal(drawn.labels, token_ids.gather(1, drawn.positions))


def test_it_is_captured_as_one_graph() -> None:
    compile_and_check("eager")


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("c++") is None and shutil.which("g++") is None, reason="no C++ compiler")
@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")  # torch's own compiler still uses it
def test_it_compiles_into_one_graph() -> None:
    compile_and_check("inductor")
