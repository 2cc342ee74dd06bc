"""The rule files of a running workspace: taken in when they change or somebody asks, if all of them are sound.

What became of them stands in the database, where `status` and whoever asked can read it.
"""

import hashlib
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import structlog
from psycopg import Connection
from pyspark.sql import SparkSession

from moirae.config import Settings
from moirae.deployments.check import check_rule_files, select_rule_files
from moirae.deployments.plan import DeploymentStep
from moirae.deployments.registry import RuleRegistry
from moirae.errors import MoiraeError, ProblemsError
from moirae.rules import RuleAdmission
from moirae.runtime import connect_database
from recall.sandbox import SPARK_LOST

_LOG = structlog.get_logger()

# Seconds between two looks at the files. Files that change from one look to the next are still being written.
_POLL_INTERVAL = 0.5
# How often a process may end over the same files before they are refused unchecked.
_MAX_CRASHES = 3
# Seconds that the end of the process waits for a check at hand.
_STOP_TIMEOUT = 5.0

_FileStats = tuple[tuple[str, int, int], ...]


def compute_digest(paths: Sequence[Path]) -> str:
    """A hash of names and contents. Files that cannot be read count as empty: their check says why."""
    found = hashlib.sha256()
    for path in paths:
        try:
            content = path.read_bytes()
        except OSError:
            content = b""
        found.update(f"{path}\0{len(content)}\0".encode() + content)
    return found.hexdigest()


class RuleFileLoader:
    """The rule files of one workspace; checks by one Spark session, writes on one connection."""

    def __init__(
        self,
        spark: SparkSession,
        settings: Settings,
        connection: Connection[Any],
        admission: RuleAdmission | None = None,
    ) -> None:
        """`admission`: where it is remembered what has passed the gate in this process."""
        self._spark = spark
        self._settings = settings
        self._registry = RuleRegistry(connection)
        self._admission = admission or RuleAdmission(spark, settings)

    def apply(self) -> list[DeploymentStep]:
        """Make them the desired rules. Raises `MoiraeError` if any is bad: then no rule changes, and why is noted.

        Files over which the check itself fails are refused like bad ones: checked again they would fail again.
        """
        asked = self._registry.rule_files_state().asked
        found = compute_digest(self._settings.find_rule_files())
        falls = self._registry.begin_check(found)
        if falls >= _MAX_CRASHES:
            refused = MoiraeError(
                f"the rule files are not checked again: {falls} processes have ended while they did so, "
                "as where a query takes all memory to be understood; change them, or ask for another look"
            )
            self._registry.record_check(asked, found, _problem_texts(refused))
            raise refused
        try:
            paths = select_rule_files(self._settings, [])
            wanted, warnings = check_rule_files(
                self._spark, self._settings, paths, self._admission.admitted
            )
        except MoiraeError as error:
            self._registry.record_check(asked, found, _problem_texts(error))
            raise
        except SPARK_LOST:
            raise
        except Exception as error:
            _LOG.exception("checking rule files failed", action="rules_check_failed")
            refused = MoiraeError(
                f"the rule files cannot be checked: {type(error).__name__}: {error}"
            )
            self._registry.record_check(asked, found, _problem_texts(refused))
            raise refused from error
        for problem in warnings:
            _LOG.warning("rule file", action="rules_warning", problem=str(problem))
        self._admission.set_admitted(wanted)
        steps = self._registry.apply(wanted)
        for step in steps:
            _LOG.info("rule applied", action=f"rule_{step.action}", rule=step.rule)
        self._registry.record_check(asked, found, None)
        return steps

    def is_check_due(self, files_changed: bool) -> bool:
        """Whether somebody has asked, or the files are not those looked at last."""
        found, paths = self._registry.rule_files_state(), self._settings.find_rule_files()
        if found.asked > found.answered:
            return True
        # Where there never was a file, rules come by `rules apply` alone.
        return (
            files_changed
            and (bool(paths) or found.digest is not None)
            and found.digest != compute_digest(paths)
        )

    def stat_files(self) -> _FileStats:
        """What tells cheaply that files have changed."""
        found = []
        for path in self._settings.find_rule_files():
            try:
                status = path.stat()
            except OSError:
                continue
            found.append((str(path), status.st_mtime_ns, status.st_size))
        return tuple(found)


class RuleReloader:
    """A thread of the live process that keeps desired rules as the files say, with a connection of its own."""

    def __init__(
        self,
        spark: SparkSession,
        settings: Settings,
        admission: RuleAdmission,
        requested: threading.Event,
    ) -> None:
        """`asked`: set by whoever wants the files looked at now."""
        self._spark = spark
        self._settings = settings
        self._admission = admission
        self._requested = requested
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True, name="rules")

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def stop(self) -> None:
        """After the look at hand, unless that takes long."""
        self._stop.set()
        self._thread.join(_STOP_TIMEOUT)

    def _run(self) -> None:
        while not self._stop.wait(_POLL_INTERVAL):
            try:
                with connect_database(self._settings, "rules") as connection:
                    self._watch_files(
                        RuleFileLoader(self._spark, self._settings, connection, self._admission)
                    )
            except SPARK_LOST:
                return  # the process ends
            except Exception:
                _LOG.exception("looking after rule files failed", action="rules_look_failed")

    def _watch_files(self, files: RuleFileLoader) -> None:
        before: _FileStats | None = None
        seen: _FileStats | None = None
        while not self._stop.wait(_POLL_INTERVAL):
            marks = files.stat_files()
            changed = self._settings.watch_rules and marks == before and marks != seen
            before = marks
            if self._requested.is_set() or files.is_check_due(changed):
                self._requested.clear()
                _try_apply(files)
            if changed:
                seen = marks


def _try_apply(files: RuleFileLoader) -> None:
    try:
        files.apply()
    except MoiraeError as error:
        _LOG.error("rule files are not applied", action="rules_refused", problems=str(error))


def _problem_texts(error: MoiraeError) -> list[str]:
    return (
        [str(problem) for problem in error.problems]
        if isinstance(error, ProblemsError)
        else [str(error)]
    )
