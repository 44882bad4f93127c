"""Late interaction: MaxSim and its loss by few-line computations, padding, rows of queries."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from anaume.config import HeadConfig
from anaume.data.labelled import SimilarityExample
from anaume.errors import DataError, SettingsError
from anaume.model.vector_losses import max_sim
from anaume.tasks.features import TaskBatch
from anaume.tasks.late_interaction import LateInteraction, MaxSims
from anaume.tasks.max_sim import max_sim_scores
from anaume.tasks.registry import restored_task
from tiny_bundles import tiny_tokenizer

HEAD = HeadConfig(kind="late-interaction", size=4)


def drawn(rows: int, tokens: int, seed: int) -> Tensor:
    made = torch.randn(rows, tokens, 4, generator=torch.Generator().manual_seed(seed))
    return torch.nn.functional.normalize(made, dim=-1)


def by_hand(query: list[list[float]], passage: list[list[float]]) -> float:
    return sum(max(sum(a * b for a, b in zip(q, p, strict=True)) for p in passage) for q in query)


def masked(lengths: list[int], longest: int) -> Tensor:
    return torch.arange(longest)[None, :] < torch.tensor(lengths)[:, None]


def test_max_sim_by_hand_with_and_without_padding() -> None:
    queries, passages, q_lengths, p_lengths = drawn(3, 5, 1), drawn(4, 6, 2), [5, 2, 1], [6, 1, 4, 3]
    found = max_sim(queries, masked(q_lengths, 5), passages, masked(p_lengths, 6))
    rows = [own[:length].numpy() for own, length in zip(passages, p_lengths, strict=True)]
    for number, length in enumerate(q_lengths):
        query = queries[number, :length]
        wanted = [by_hand(query.tolist(), row.tolist()) for row in rows]
        assert found[number].tolist() == pytest.approx(wanted, abs=1e-6)
        assert max_sim_scores(query.numpy(), rows).tolist() == pytest.approx(wanted, abs=1e-6)


def test_many_passages_are_scored_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = np.random.default_rng(0)
    query = draw.normal(size=(3, 4)).astype(np.float32)
    passages = [draw.normal(size=(int(draw.integers(1, 9)), 4)).astype(np.float32) for _ in range(50)]
    whole = max_sim_scores(query, passages)
    monkeypatch.setattr("anaume.tasks.max_sim._AT_ONCE", 30)  # some passages alone are more
    np.testing.assert_allclose(max_sim_scores(query, passages), whole, atol=1e-6)
    assert max_sim_scores(query, []).shape == (0,)


def batch_of(positives: list[int], sizes: list[int], mask: Tensor, keys: list[int] | None = None) -> TaskBatch:
    rows = sum(sizes)
    return TaskBatch(
        attention_mask=mask,
        unit_of_row=torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes)),
        targets={"texts": torch.tensor(keys or list(range(rows)))[:, None], "positives": torch.tensor(positives)},
    )


def test_the_loss_is_the_cross_entropy_of_each_positive_and_padding_has_no_part_in_it() -> None:
    lengths = [3, 5, 2, 2, 4, 1, 5]  # query, positive, negative; query, two positives; and padding behind all
    rows, mask = drawn(7, 7, 5), masked(lengths, 7)
    batch, task = batch_of([1, 2], [3, 4], mask), LateInteraction(HEAD, scale=2.0)
    given = rows.clone().requires_grad_()
    loss = task.loss(given, batch, task.count(batch))
    texts = [own[:length].tolist() for own, length in zip(rows, lengths, strict=True)]

    def one(query: int, positive: int, negatives: list[int]) -> float:
        scores = [2.0 * by_hand(texts[query], texts[other]) for other in [positive, *negatives]]
        return math.log(sum(math.exp(score - scores[0]) for score in scores))

    wanted = (one(0, 1, [2, 4, 5, 6]) + (one(3, 4, [1, 2, 6]) + one(3, 5, [1, 2, 6])) / 2) / 2
    assert loss.item() == pytest.approx(wanted, abs=1e-5)
    loss.backward()
    assert given.grad is not None
    assert given.grad[~mask].abs().max() == 0.0
    assert given.grad[mask].abs().max() > 0.0
    noise = torch.where(mask[..., None], rows, 100.0 * drawn(7, 7, 9))
    assert task.loss(noise, batch, task.count(batch)).item() == loss.item()


def test_a_copy_of_a_positive_is_no_negative() -> None:
    lengths = [2, 3, 2, 3]
    rows, mask = drawn(4, 3, 3), masked(lengths, 3)
    task = LateInteraction(HEAD)
    same, other = batch_of([1, 1], [2, 2], mask, [0, 1, 2, 1]), batch_of([1, 1], [2, 2], mask)
    assert task.loss(rows, same, task.count(same)).item() == 0.0
    assert task.loss(rows, other, task.count(other)).item() > 0.1


def row(text: str, *positives: str, worse: tuple[str, ...] = (), label: str | None = None) -> SimilarityExample:
    return SimilarityExample(text=text, positives=positives, negatives=worse, label=label, place=f"made: {text}")


def test_prompts_and_masks_stand_where_they_belong() -> None:
    task, tokenizer = LateInteraction(HEAD, prompts=("q : ", "the "), query_tokens=9), tiny_tokenizer()
    features = task.features([row("my dog", "cat", "bank")], tokenizer, 40, learn=True)
    words = [[tokenizer.vocab[one] for one in features.token_ids[number]] for number in range(3)]
    assert words[0] == ["[CLS]", "q", ":", "my", "dog", "[SEP]", "[MASK]", "[MASK]", "[MASK]"]
    assert words[1:] == [["[CLS]", "the", "cat", "[SEP]"], ["[CLS]", "the", "bank", "[SEP]"]]
    long = task.features([row("my dog is cute and my cat is open", "a")], tokenizer, 40, learn=False)
    assert "[MASK]" not in [tokenizer.vocab[one] for one in long.token_ids[0]]
    with pytest.raises(SettingsError, match=r"task.query_tokens is 9; rows have at most 8 tokens"):
        task.features([row("a", "b")], tokenizer, 8, learn=False)


def test_queries_are_found_among_the_passages_of_all() -> None:
    rows = [row("dog", "cat"), row("bank", "river", worse=("closed",)), row("dog", "my cat")]
    vectors = {text: np.eye(4, dtype=np.float32)[place][None] for place, text in enumerate(("cat", "river", "closed"))}
    vectors |= {"my cat": np.array([[0.6, 0.8, 0.0, 0.0]], np.float32)}
    queries = {"dog": vectors["cat"], "bank": vectors["closed"]}

    def predicted(example: SimilarityExample) -> MaxSims:
        both = [vectors[text] for text in (*example.positives, *example.negatives)]
        scores = tuple(max_sim_scores(queries[example.text], both).tolist())
        return MaxSims(scores=scores, vectors=(queries[example.text], *both), coverage=1.0)

    task = LateInteraction(HEAD)
    predictions = [predicted(example) for example in rows]
    told = task.score(predictions, rows)
    # "bank": "closed" first, then equal ones in the order they came: cat, river, my cat. "dog" wants both its own.
    assert told["mrr@10"] == pytest.approx((1 + 1 / 3 + 1) / 3)
    assert told["recall@10"] == 1.0
    assert task.score_of(task.example_scores(predictions, rows)) == told["mrr@10"]
    assert predictions[0].record() == {"score": 1.0, "coverage": 1.0}
    assert predictions[1].record()["scores"] == [0.0, 1.0]


def test_it_comes_back_from_a_bundle() -> None:
    task = LateInteraction.fit([row("a", "b")], size=4, scale=3.0, prompts=["q", "p"], query_tokens=6)
    again = restored_task("late-interaction", task.head, task.settings())
    assert again.settings() == task.settings()
    assert again.example(("a", ["b", "c"]), "input 0").positives == ("b", "c")
    with pytest.raises(DataError, match=r"input 0: late-interaction reads \(query, passage\)"):
        again.example("a", "input 0")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"metric": "spearman"}, r"task.metric must be one of .*mrr@10"),
        ({"prompts": ["q"]}, r"task.prompts must be two texts, of queries and of passages; got \['q'\]"),
        ({"scale": 0.0}, r"task.scale must be above 0; got 0.0"),
        ({"query_tokens": -1}, r"task.query_tokens must be a whole number from 0; got -1"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, object], said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        LateInteraction.fit([row("a", "b")], **options)


def test_labelled_pairs_and_single_texts_are_refused() -> None:
    with pytest.raises(DataError, match="made: a: the pair has the label '0'; late-interaction takes every pair"):
        LateInteraction.fit([row("a", "b", label="0")])
    with pytest.raises(DataError, match="made: a: late-interaction needs a second text a row"):
        LateInteraction.fit([row("a")])
    with pytest.raises(DataError, match="made: a: the pair has the label"):
        LateInteraction(HEAD).check_labels([row("a", "b", label="0")])
