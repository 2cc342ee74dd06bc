"""Statements over tables of rows, in DuckDB: in this process, or in tasks on executors.

Tasks import this package: it imports neither Spark's sessions nor the analysis of queries.
"""

from recall.statements.duckdb_statements import NO_EXTERNAL_ACCESS, DuckDBStatements
from recall.statements.file_rows import (
    MAX_PART_ROWS,
    MIN_TASK_ROWS,
    FilePart,
    FileRows,
    divide_files,
)
from recall.statements.file_scan import DUCKDB_TYPES, scan_files, select_range
from recall.statements.part_task import (
    PartJob,
    PartOutcome,
    PartStatement,
    run_on_part,
)
from recall.statements.statement import Statement

WORKER_DAEMON = "recall.statements.worker_daemon"
"""The module of the process from which Spark forks the workers of tasks."""

__all__ = [
    "DUCKDB_TYPES",
    "DuckDBStatements",
    "FilePart",
    "FileRows",
    "MAX_PART_ROWS",
    "MIN_TASK_ROWS",
    "NO_EXTERNAL_ACCESS",
    "PartJob",
    "PartOutcome",
    "PartStatement",
    "Statement",
    "WORKER_DAEMON",
    "divide_files",
    "run_on_part",
    "scan_files",
    "select_range",
]
