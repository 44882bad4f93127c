"""A task's reader by the task's name."""

import pytest

from anaume.data.labelled import (
    LABELLED_TASKS,
    ChoiceExample,
    QuestionExample,
    SimilarityExample,
    TaggedExample,
    TextExample,
    read_labelled,
)
from anaume.errors import DataError, SettingsError

FILES = {
    "classification": ("a.tsv", "text\tlabel\na\tx\n", TextExample),
    "pair-classification": ("a.tsv", "sentence1\tsentence2\tlabel\na\tb\tx\n", TextExample),
    "multi-label": ("a.tsv", "text\tlabels\na\tx|y\n", TextExample),
    "regression": ("a.tsv", "text\tscore\na\t1.5\n", TextExample),
    "ner": ("a.conll", "a\tO\n", TaggedExample),
    "question-answering": ("a.jsonl", '{"question": "q", "context": "c", "answers": []}\n', QuestionExample),
    "multiple-choice": ("a.csv", "question,choice0,choice1,label\nq,a,b,1\n", ChoiceExample),
    "ranking": ("a.csv", "query,positive\na,b\n", SimilarityExample),
    "similarity": ("a.csv", "query,positive\na,b\n", SimilarityExample),
    "late-interaction": ("a.csv", "query,positive\na,b\n", SimilarityExample),
}


@pytest.mark.parametrize("task", LABELLED_TASKS)
def test_every_task_has_a_reader(tmp_path, task):
    name, text, kind = FILES[task]
    path = tmp_path / name
    path.write_text(text)
    (example,) = read_labelled(task, path, format=None)
    assert isinstance(example, kind)
    assert example.place


def test_the_labels_are_of_the_task(tmp_path):
    path = tmp_path / "a.tsv"
    path.write_text("text\tlabel\na\t1\n")
    labels = [next(read_labelled(task, path)).label for task in ("classification", "regression", "multi-label")]
    assert labels == ["1", 1.0, ("1",)]
    with pytest.raises(DataError, match="no column of a second text"):
        list(read_labelled("pair-classification", path))


def test_flag_columns_can_be_parted_by_commas(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("text,a,b\nx,0,1\n")
    assert next(read_labelled("multi-label", path, label="a,b")).label == ("b",)
    other = tmp_path / "b.csv"
    other.write_text("question,x,y,label\nq,a,b,1\n")
    assert next(read_labelled("multiple-choice", other, options="x,y")).options == ("a", "b")


def test_what_means_nothing_is_refused_by_name(tmp_path):
    with pytest.raises(SettingsError, match=r"'clasification' \(did you mean 'classification'"):
        read_labelled("clasification", tmp_path)
    with pytest.raises(SettingsError, match="classification has no column 'tags'; it has: 'text', 'pair', 'label'"):
        read_labelled("classification", tmp_path, tags="x")
