"""Lints of rules (`moirae rules check`): what is valid and probably not meant, or costs too much."""

from moirae.lints.lints import HISTORY_LINTS, find_lints, report_findings, report_idle_silences

__all__ = ["HISTORY_LINTS", "find_lints", "report_findings", "report_idle_silences"]
