"""A task on an executor: the rows of a part of archived files that any of some rules needs."""

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import pyarrow as pa

from moirae.evaluation.index.compiled_rules import CompiledRule, RuleCompiler
from moirae.evaluation.index.rule_index import RuleIndex
from recall.errors import SparkRequired
from recall.query import parse
from recall.statements import FilePart, FileRows

_MAX_ROWS = 200_000  # rows that a task returns
_MAX_INDEXES = 4  # sets of rules whose index a worker process keeps

_Columns = tuple[tuple[str, str], ...]  # names and types


class IndexTaskRule(NamedTuple):
    """A rule's event query over the view of a stream, and the types of its attributes."""

    query: str
    output_types: _Columns


@dataclass(frozen=True)
class IndexJob:
    """What all tasks of a job need. `view`: the name of the rows; `columns`: their types."""

    rows: FileRows
    view: str
    columns: _Columns
    rules: tuple[IndexTaskRule, ...]


def select_rows(job: IndexJob, part: FilePart) -> pa.Table | None:
    """The rows; None: too many, or rules that cannot be compiled."""
    table = job.rows.read(part)
    try:
        index = _build_index(job.view, job.columns, job.rules)
        needed: set[int] = set()
        for verdicts in index.evaluate(table):
            needed.update(verdicts.rows, verdicts.undecided)
    except (SparkRequired, pa.ArrowException, OverflowError):
        return None
    if len(needed) > _MAX_ROWS:
        return None
    return table.take(pa.array(sorted(needed), pa.int64()))


@lru_cache(_MAX_INDEXES)
def _build_index(view: str, columns: _Columns, rules: tuple[IndexTaskRule, ...]) -> RuleIndex:
    compiler = RuleCompiler({view: dict(columns)})
    compiled: list[CompiledRule] = []
    for text, output_types in rules:
        rule = compiler.compile_rule(parse(text), dict(output_types))
        if rule is None:
            raise SparkRequired("a rule that needs all rows")
        compiled.append(rule)
    return RuleIndex(compiled, compiler.layouts[view])
