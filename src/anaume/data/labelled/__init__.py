"""Labelled examples out of files: texts, tagged words, questions, choices; streamed, each knowing its row."""

from anaume.data.labelled.choices import read_choices
from anaume.data.labelled.examples import (
    Answer,
    ChoiceExample,
    Example,
    QuestionExample,
    SimilarityExample,
    TaggedExample,
    TextExample,
)
from anaume.data.labelled.labels import LabelKind
from anaume.data.labelled.questions import read_questions
from anaume.data.labelled.readers import LABELLED_TASKS, read_labelled
from anaume.data.labelled.similar import read_similar
from anaume.data.labelled.sources import LABELLED_FORMATS, LabelledFormat
from anaume.data.labelled.split import class_of, count_seen, split_examples
from anaume.data.labelled.tagged import read_tagged
from anaume.data.labelled.texts import read_texts
from anaume.data.labelled.words import cut_words

__all__ = [
    "LABELLED_FORMATS",
    "LABELLED_TASKS",
    "Answer",
    "ChoiceExample",
    "Example",
    "LabelKind",
    "LabelledFormat",
    "QuestionExample",
    "SimilarityExample",
    "TaggedExample",
    "TextExample",
    "class_of",
    "count_seen",
    "cut_words",
    "read_choices",
    "read_labelled",
    "read_questions",
    "read_similar",
    "read_tagged",
    "read_texts",
    "split_examples",
]
