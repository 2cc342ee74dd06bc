"""Lints of contexts, recalls and `where`. No I/O."""

from collections.abc import Iterator

from sqlglot import exp

from moirae.documents import KeyPath
from moirae.rules import Definition, HistoryRecall, LintName, SimilarRecall
from recall.query import COVERAGE_TYPES, coverage_columns, parse, tables_used

Finding = tuple[LintName, KeyPath, str]
_COMPARISONS = (exp.GT, exp.GTE, exp.LT, exp.LTE, exp.EQ, exp.NEQ, exp.Between, exp.In)
_PARTIAL = (exp.Count, exp.Sum, exp.CountIf)
_ESTIMATED = (*_PARTIAL, exp.Avg)


def find_unused_contexts(definition: Definition) -> Iterator[Finding]:
    """Contexts that no similarity recall compares and no query reads."""
    spec = definition.spec
    names = set(spec.context)
    used: set[str] = set()
    for recall in spec.recall.values():
        if isinstance(recall, SimilarRecall):
            used.update(recall.similar.contexts or names)
        else:
            used |= tables_used(recall.sql, names)
    for stage in spec.then:
        used |= tables_used(stage.sql, names)
    for name in spec.context:
        if name not in used:
            message = (
                "no similarity recall compares this context, and no query reads it; make it a "
            )
            yield "unused-context", ("context", name), f"{message}surrounding, or remove it"


def find_unbounded_recalls(definition: Definition) -> Iterator[Finding]:
    """SQL recalls that read all history for as long as it takes."""
    for name, recall in definition.spec.recall.items():
        if isinstance(recall, HistoryRecall) and recall.range is None and recall.feedback is None:
            message = "reads all of the history before each event; set `range`, such as 30d, or "
            path = ("recall", name)
            yield "unbounded-recall", path, f"{message}`feedback`, after which it is suspended"


def find_partial_comparisons(definition: Definition) -> Iterator[Finding]:
    """Counts and sums that `where` compares: they grow with each piece of history that is read."""
    spec = definition.spec
    if spec.where is None:
        return
    partial = {
        (name, column)
        for name, recall in spec.recall.items()
        if isinstance(recall, HistoryRecall)
        for column in _find_partial_columns(recall.sql)
    }
    condition = parse(f"SELECT 1 WHERE {spec.where}")
    # Recalls whose coverage the condition takes into account.
    covered = {
        column.table.lower()
        for column in condition.find_all(exp.Column)
        if column.name.lower() in COVERAGE_TYPES
    }
    reported: set[str] = set()
    for comparison in condition.find_all(*_COMPARISONS):
        for column in comparison.find_all(exp.Column):
            text = f"{column.table}.{column.name}"
            is_divided = column.find_ancestor(exp.Div, exp.Select).__class__ is exp.Div
            is_partial = (column.table.lower(), column.name.lower()) in partial
            is_partial = is_partial and column.table.lower() not in covered
            if is_partial and not is_divided and text not in reported:
                reported.add(text)
                message = (
                    f"{text} is a count or sum, which grows while history is read: an early "
                    f"answer compares a part of it; compare {text}_low or {text}_estimate, an average "
                    "or a share"
                )
                yield "partial-comparison", ("where",), message


def find_hidden_coverage(definition: Definition) -> Iterator[Finding]:
    """Columns of recalls that hide a column of their answer's coverage or an estimate."""
    for name, recall in definition.spec.recall.items():
        if not isinstance(recall, HistoryRecall):
            continue
        outputs = parse(recall.sql).selects
        own = [output.alias_or_name for output in outputs]
        estimated = [
            output.alias_or_name for output in outputs if isinstance(output.unalias(), _ESTIMATED)
        ]
        visible = coverage_columns(own, estimated)
        for column in coverage_columns((), estimated).keys() - visible.keys():
            message = (
                f"the column {column} hides what each answer says of itself by that name; name it "
                "differently"
            )
            yield "hidden-coverage", ("recall", name, "sql"), message


def _find_partial_columns(sql: str) -> Iterator[str]:
    """Columns of a recall that are counts or sums alone, by name in lower case."""
    for output in parse(sql).selects:
        if isinstance(output.unalias(), _PARTIAL):
            yield output.alias_or_name.lower()
