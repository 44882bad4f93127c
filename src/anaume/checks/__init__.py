"""Checks a user can repeat: what the machine gives, what a text holds, and whether a bundle keeps the promises."""

from anaume.checks.corpus import CorpusCheck, TokenCounts, check_corpus
from anaume.checks.doctor import Finding, examine_machine
from anaume.checks.forecast import describe_forecast
from anaume.checks.labelled import LabelledCheck, Majority, check_labelled
from anaume.checks.labelled_part import LabelledPart, Numbers
from anaume.checks.machine import Machine, describe_machine
from anaume.checks.overlap import Overlap
from anaume.checks.report import Check, VerifyReport
from anaume.checks.samples import SAMPLE_TEXTS
from anaume.checks.verify import verify_bundle
from anaume.checks.verify_run import verify_run
from anaume.engines import matrix_rate, share_of_machine
from anaume.model import encoder_flops

__all__ = [
    "SAMPLE_TEXTS",
    "Check",
    "CorpusCheck",
    "Finding",
    "LabelledCheck",
    "LabelledPart",
    "Machine",
    "Majority",
    "Numbers",
    "Overlap",
    "TokenCounts",
    "VerifyReport",
    "check_corpus",
    "check_labelled",
    "describe_forecast",
    "describe_machine",
    "encoder_flops",
    "examine_machine",
    "matrix_rate",
    "share_of_machine",
    "verify_bundle",
    "verify_run",
]
