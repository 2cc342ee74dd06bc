"""Which engine runs a statement of a rule or a recall: DuckDB if it can, else Spark. No I/O."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeVar

from archiver.read import WIDE_SCAN_ROWS
from recall.errors import SparkRequired

_Result = TypeVar("_Result")

EngineSetting = Literal["auto", "spark", "local"]


@dataclass(frozen=True)
class EngineChoice:
    """The choice by the key `recall.engine` of the workspace.

    What is not plain, and what fails in DuckDB, raises `SparkRequired` there and is run by Spark.
    """

    setting: EngineSetting = "auto"

    @property
    def allows_duckdb(self) -> bool:
        """Whether anything may run in this process."""
        return self.setting != "spark"

    @property
    def measures_costs(self) -> bool:
        """Whether Spark may run what both engines can, because it was faster."""
        return self.setting == "auto"

    def runs_in_tasks(self, row_count: int) -> bool:
        """Whether tasks on executors run what DuckDB can run and Spark shall.

        `row_count`: of the pinned files that it reads. Otherwise it is one statement of Spark.
        """
        return self.setting != "local" and row_count >= WIDE_SCAN_ROWS

    def run(self, duckdb: Callable[[], _Result], spark: Callable[[], _Result]) -> _Result:
        """The result of one statement."""
        if self.allows_duckdb:
            try:
                return duckdb()
            except SparkRequired:
                pass
        return spark()
