"""Against others: the loss and gradients of a transformers twin, and the scores of seqeval."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from anaume.bundle.read import read_bundle
from anaume.tasks.features import IGNORED, Ragged, TaskBatch
from anaume.tasks.ner import Ner, entity_scores, spans_of, strict_spans_of
from anaume.tasks.ner.schemes import Scheme
from tiny_bundles import VOCAB, tiny_tokenizer
from tiny_models import difference, pad_rows
from tiny_tags import tagged

transformers = pytest.importorskip("transformers")

EXAMPLES = [
    tagged("my dog wses the 銀行", "O B-PET I-PET O B-ORG"),
    tagged("the bank of the river was closed", "O B-ORG I-ORG I-ORG I-ORG O O"),
    tagged("a", "O"),
]


def ner_twin() -> Any:
    task = Ner.fit(EXAMPLES)
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=len(VOCAB),
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=24,
        max_position_embeddings=40,
        initializer_range=0.3,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        id2label=dict(enumerate(task.head.labels)),
        label2id={label: number for number, label in enumerate(task.head.labels)},
    )
    return transformers.BertForTokenClassification(config).train()


def test_loss_and_gradients_equal_the_twins(tmp_path: Path) -> None:
    twin = ner_twin()
    twin.save_pretrained(tmp_path)
    tiny_tokenizer().save(tmp_path)
    model = read_bundle(tmp_path).model.train()
    task = Ner.restore(model.head_configs["token-classification"], {})
    assert (task.head.labels, task.scheme) == (Ner.fit(EXAMPLES).head.labels, "bio")
    features = task.features(EXAMPLES, tiny_tokenizer(), 40, learn=True)
    token_ids, mask = pad_rows([features.token_ids[row].tolist() for row in range(features.rows)])
    target = features.targets["labels"]
    assert isinstance(target, Ragged)
    labels, _ = pad_rows([target[row].tolist() for row in range(features.rows)], pad_id=IGNORED)

    theirs = twin(input_ids=token_ids, attention_mask=mask.long(), labels=labels).loss
    theirs.backward()
    batch = TaskBatch(attention_mask=mask, unit_of_row=torch.arange(features.rows), targets={"labels": labels})
    logits = model.head_logits("token-classification", model(token_ids, mask).last_hidden_state, mask)
    ours = task.loss(logits, batch, task.count(batch))
    torch.autograd.backward(ours)

    assert ours.item() == pytest.approx(theirs.item(), abs=1e-5)
    pairs = {
        "heads.token-classification.dense.weight": "classifier.weight",
        "heads.token-classification.dense.bias": "classifier.bias",
        "embeddings.token_embeddings.weight": "bert.embeddings.word_embeddings.weight",
        "embeddings.position_embeddings.weight": "bert.embeddings.position_embeddings.weight",
        "embeddings.layer_norm.weight": "bert.embeddings.LayerNorm.weight",
    }
    for name, foreign in pairs.items():
        here, there = model.get_parameter(name).grad, twin.get_parameter(foreign).grad
        assert here is not None
        assert there.abs().max() > 1e-4, name
        assert difference(here, there) <= 1e-5, name
    total = [sum(p.grad.square().sum().item() for p in m.parameters() if p.grad is not None) for m in (model, twin)]
    assert total[0] == pytest.approx(total[1], rel=1e-4)


TAGS = st.sampled_from(["O", "B-PER", "I-PER", "B-LOC", "I-LOC"])
BIOES = st.sampled_from(["O", *(f"{letter}-{type_}" for letter in "BIES" for type_ in ("PER", "LOC"))])


@pytest.mark.parametrize(
    ("scheme", "tags", "strict"),
    [("bio", TAGS, False), ("bio", TAGS, True), ("bioes", BIOES, True), ("bioes", BIOES, False)],
)
@settings(max_examples=60)
@given(data=st.data())
def test_scores_equal_seqevals(scheme: Scheme, tags: st.SearchStrategy[str], strict: bool, data: st.DataObject) -> None:
    lenient = pytest.importorskip("seqeval.metrics.sequence_labeling", exc_type=ImportError)
    from seqeval.metrics import v1
    from seqeval.scheme import IOB2, IOBES

    lengths = data.draw(st.lists(st.integers(1, 8), min_size=1, max_size=4))
    gold, said = ([data.draw(st.lists(tags, min_size=n, max_size=n)) for n in lengths] for _ in range(2))
    read = partial(strict_spans_of, scheme=scheme) if strict else spans_of
    ours = entity_scores([read(row) for row in gold], [read(row) for row in said])
    assume(ours["types"])  # without any entity seqeval takes the mean of nothing
    scores = partial(v1.precision_recall_fscore_support, scheme={"bio": IOB2, "bioes": IOBES}[scheme])
    if not strict:
        scores = lenient.precision_recall_fscore_support
    for average, prefix in (("micro", ""), ("macro", "macro_")):
        theirs = scores(gold, said, average=average, zero_division=0)
        found = [ours[f"{prefix}{name}"] or 0.0 for name in ("precision", "recall", "f1")]
        assert found == pytest.approx([float(value) for value in theirs[:3]]), (gold, said)
