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

from moirae import database
from moirae.deployments.apply import checked, rule_files
from moirae.deployments.plan import Step
from moirae.deployments.registry import Registry
from moirae.errors import MoiraeError, ProblemsError
from moirae.rules.admission import Admission
from moirae.settings import Settings
from recall.gate import SPARK_GONE

_LOG = structlog.get_logger()

# Seconds between two looks at the files. Files that change from one look to the next are still being written.
_LOOK = 0.5
# How often a process may end over the same files before they are refused unchecked.
_FALLS = 3
# Seconds that the end of the process waits for a check at hand.
_PATIENCE = 5.0

_Marks = tuple[tuple[str, int, int], ...]


def digest(paths: Sequence[Path]) -> str:
    """A hash of names and contents. Files that cannot be read count as empty: their check says why."""
    found = hashlib.sha256()
    for path in paths:
        try:
            content = path.read_bytes()
        except OSError:
            content = b""
        found.update(f"{path}\0{len(content)}\0".encode() + content)
    return found.hexdigest()


class RuleFiles:
    """The rule files of one workspace; checks by one Spark session, writes on one connection."""

    def __init__(
        self, spark: SparkSession, settings: Settings, connection: Connection[Any], admission: Admission | None = None
    ) -> None:
        """`admission`: where it is remembered what has passed the gate in this process."""
        self._spark = spark
        self._settings = settings
        self._registry = Registry(connection)
        self._admission = admission or Admission(spark, settings)

    def apply(self) -> list[Step]:
        """Make them the desired rules. Raises `MoiraeError` if any is bad: then no rule changes, and why is noted.

        Files over which the check itself fails are refused like bad ones: checked again they would fail again.
        """
        asked = self._registry.rule_files().asked
        found = digest(self._settings.rule_files())
        falls = self._registry.begin_look(found)
        if falls >= _FALLS:
            refused = MoiraeError(
                f"the rule files are not checked again: {falls} processes have ended while they did so, "
                "as where a query takes all memory to be understood; change them, or ask for another look"
            )
            self._registry.looked(asked, found, _texts(refused))
            raise refused
        try:
            paths = rule_files(self._settings, [])
            wanted, warnings = checked(self._spark, self._settings, paths, self._admission.passed)
        except MoiraeError as error:
            self._registry.looked(asked, found, _texts(error))
            raise
        except SPARK_GONE:
            raise
        except Exception as error:
            _LOG.exception("checking rule files failed", action="rules_check_failed")
            refused = MoiraeError(f"the rule files cannot be checked: {type(error).__name__}: {error}")
            self._registry.looked(asked, found, _texts(refused))
            raise refused from error
        for problem in warnings:
            _LOG.warning("rule file", action="rules_warning", problem=str(problem))
        self._admission.remember(wanted)
        steps = self._registry.apply(wanted)
        for step in steps:
            _LOG.info("rule applied", action=f"rule_{step.action}", rule=step.rule)
        self._registry.looked(asked, found, None)
        return steps

    def due(self, watch: bool) -> bool:
        """Whether somebody has asked, or the files are not those looked at last."""
        found, paths = self._registry.rule_files(), self._settings.rule_files()
        if found.asked > found.answered:
            return True
        # Where there never was a file, rules come by `rules apply` alone.
        return watch and (bool(paths) or found.digest is not None) and found.digest != digest(paths)

    def marks(self) -> _Marks:
        """What tells cheaply that files have changed."""
        found = []
        for path in self._settings.rule_files():
            try:
                status = path.stat()
            except OSError:
                continue
            found.append((str(path), status.st_mtime_ns, status.st_size))
        return tuple(found)


class Reloading:
    """A thread of the live process that keeps desired rules as the files say, with a connection of its own."""

    def __init__(self, spark: SparkSession, settings: Settings, admission: Admission, asked: threading.Event) -> None:
        """`asked`: set by whoever wants the files looked at now."""
        self._spark = spark
        self._settings = settings
        self._admission = admission
        self._asked = asked
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True, name="rules")

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def stop(self) -> None:
        """After the look at hand, unless that takes long."""
        self._stop.set()
        self._thread.join(_PATIENCE)

    def _run(self) -> None:
        while not self._stop.wait(_LOOK):
            try:
                with database.connect(self._settings, "rules") as connection:
                    self._look(RuleFiles(self._spark, self._settings, connection, self._admission))
            except SPARK_GONE:
                return  # the process ends
            except Exception:
                _LOG.exception("looking after rule files failed", action="rules_look_failed")

    def _look(self, files: RuleFiles) -> None:
        before: _Marks | None = None
        seen: _Marks | None = None
        while not self._stop.wait(_LOOK):
            marks = files.marks()
            changed = self._settings.watch_rules and marks == before and marks != seen
            before = marks
            if self._asked.is_set() or files.due(changed):
                self._asked.clear()
                _apply(files)
            if changed:
                seen = marks


def _apply(files: RuleFiles) -> None:
    try:
        files.apply()
    except MoiraeError as error:
        _LOG.error("rule files are not applied", action="rules_refused", problems=str(error))


def _texts(error: MoiraeError) -> list[str]:
    return [str(problem) for problem in error.problems] if isinstance(error, ProblemsError) else [str(error)]
