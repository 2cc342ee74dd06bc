"""Warnings of a check about a rule, as they are stored with its verdict. No I/O."""

from typing import NamedTuple

from moirae.documents import KeyPath
from moirae.errors import Problem
from moirae.rules.rule_set import Rule


class RuleWarning(NamedTuple):
    """`line` and `column` count in the text at the key `path` of the rule."""

    message: str
    path: KeyPath
    line: int = 1
    column: int = 1

    def to_problem(self, rule: Rule) -> Problem:
        """The warning at its place in the rule file."""
        return rule.make_problem(
            self.message, *self.path, line=self.line, column=self.column, severity="warning"
        )
