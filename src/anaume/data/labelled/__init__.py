"""Labelled examples out of files: texts, tagged words, questions, choices; streamed, each knowing its row."""

from anaume.data.labelled.examples import Answer, ChoiceExample, Example, QuestionExample, TaggedExample, TextExample

__all__ = ["Answer", "ChoiceExample", "Example", "QuestionExample", "TaggedExample", "TextExample"]
