"""Rules as an index: a row is evaluated with those rules only that it may match.

Conditions are compiled once. From each follows a necessary condition over constants, by which rows
are found for all rules at once: hash lookups, sorted bounds, and one Aho-Corasick pass over a column
of text (Aho and Corasick: Efficient String Matching. CACM 18(6), 1975). What cannot be compiled with
the result of Spark raises `SparkRequired`. Of queries that are more than a filter the index finds the
rows that they need. No I/O but that of tasks.
"""

from moirae.evaluation.index.anchors import describe
from moirae.evaluation.index.compiled_rules import CompiledRule, RuleCompiler
from moirae.evaluation.index.index_task import IndexJob, IndexTaskRule, select_rows
from moirae.evaluation.index.reductions import find_scan
from moirae.evaluation.index.rule_index import AnchorFrequencies, RuleIndex, Verdicts

__all__ = [
    "AnchorFrequencies",
    "CompiledRule",
    "IndexJob",
    "IndexTaskRule",
    "RuleCompiler",
    "RuleIndex",
    "Verdicts",
    "describe",
    "find_scan",
    "select_rows",
]
