"""Checks a user can repeat: what the machine gives, and whether a bundle keeps the promises."""

from anaume.checks.machine import Machine, describe_machine, encoder_flops, matrix_rate, share_of_machine
from anaume.checks.report import Check, VerifyReport
from anaume.checks.samples import SAMPLE_TEXTS
from anaume.checks.verify import verify_bundle

__all__ = [
    "SAMPLE_TEXTS",
    "Check",
    "Machine",
    "VerifyReport",
    "describe_machine",
    "encoder_flops",
    "matrix_rate",
    "share_of_machine",
    "verify_bundle",
]
