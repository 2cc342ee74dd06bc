"""Reloads the rule files of a running workspace when they change or on request.

Files are applied only if all of them are valid. The result is stored in the database.
"""

import hashlib
import threading
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import structlog

import sql
from archiver.threads import start_daemon
from moirae.config import Settings
from moirae.deployments.check import check_rule_files, select_rule_files
from moirae.deployments.checked_files import find_checked_files, store_checked_files
from moirae.deployments.plan import DeploymentStep
from moirae.deployments.registry import RuleRegistry
from moirae.errors import MoiraeError, Problem, ProblemsError
from moirae.rules import Definition
from moirae.rules.checks import RuleAdmission, StartSpark
from moirae.runtime import connect_database
from recall.sandbox import SPARK_LOST
from sql.rules import RuleFileGateway, RuleFilesRow

_LOG = structlog.get_logger()

# Seconds. Files that changed since the last poll are still being written.
_POLL_INTERVAL = 0.5
_MAX_CRASHES = 3  # checks of the same files that never ended, before they are rejected
_STOP_TIMEOUT = 5.0  # seconds that stopping waits for a running check


class _FileStat(NamedTuple):
    """Name, modification time in nanoseconds and size in bytes of a file."""

    name: str
    modified: int
    size: int


def compute_digest(paths: Sequence[Path]) -> str:
    """A hash of names and contents. Unreadable files count as empty; their check reports them."""
    digest = hashlib.sha256()
    for path in paths:
        try:
            content = path.read_bytes()
        except OSError:
            content = b""
        digest.update(f"{path}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()


class RuleFileLoader:
    """Checks and applies the rule files of one workspace."""

    def __init__(
        self,
        start_spark: StartSpark,
        settings: Settings,
        connection: sql.Connection,
        admission: RuleAdmission | None = None,
    ) -> None:
        """`admission`: the rules that passed the gate in this process."""
        self._start_spark = start_spark
        self._settings = settings
        self._connection = connection
        self._registry = RuleRegistry(connection)
        self._rule_files = RuleFileGateway(connection)
        self._admission = admission or RuleAdmission(start_spark, settings)

    def apply(self) -> list[DeploymentStep]:
        """Make the files the desired rules.

        Raises `MoiraeError` if any is invalid: then no rule changes, and the reason is stored.
        Files whose check itself fails are rejected too: another check would fail again.
        """
        state = self._rule_files.get_state()
        request = state.last_request
        digest = compute_digest(self._settings.find_rule_files())
        if self._apply_again(state, digest):
            return []
        crashes = self._rule_files.begin_check(digest)
        try:
            if crashes >= _MAX_CRASHES:
                raise MoiraeError(
                    f"rule files are not checked: {crashes} processes crashed while checking them, "
                    "for example because a query exhausts memory; change the files or request a "
                    "reload"
                )
            definitions, warnings = self._check()
        except MoiraeError as error:
            self._rule_files.record_check(request, digest, _problem_texts(error))
            raise
        _log_warnings(warnings)
        self._admission.set_admitted(definitions)
        revision: int | None
        with self._connection.transaction():
            steps = self._registry.apply(definitions)
            revision = self._registry.revision()
        _log_steps(steps)
        if compute_digest(self._settings.find_rule_files()) == digest:
            store_checked_files(self._settings, [], len(definitions), warnings, "apply")
        else:
            revision = None  # it is not certain what was read
        self._rule_files.record_check(request, digest, None, revision)
        if state.problems:
            _LOG.info("rule files accepted", action="rules_accepted", rules=len(definitions))
        return steps

    def _apply_again(self, state: RuleFilesRow, digest: str) -> bool:
        """Whether the desired rules are those of the same files already, by the same check.

        Nothing is read or stored for a rule then: its stored verdict is the gate's.
        """
        if state.digest != digest or state.revision != self._registry.revision():
            return False
        checked = find_checked_files(self._settings, [], "apply")
        if checked is None:
            return False
        _log_warnings(checked[1])
        self._rule_files.record_check(state.last_request, digest, None, state.revision)
        return True

    def _check(self) -> tuple[list[Definition], list[Problem]]:
        paths = select_rule_files(self._settings, [])
        try:
            return check_rule_files(
                self._start_spark, self._settings, paths, self._admission.admitted
            )
        except (MoiraeError, *SPARK_LOST):
            raise
        except Exception as error:
            _LOG.exception("rule check failed", action="rules_check_failed")
            reason = f"{type(error).__name__}: {error}"
            raise MoiraeError(f"rule files cannot be checked: {reason}") from error

    def is_check_due(self, files_changed: bool) -> bool:
        """Whether a reload was requested, or the files differ from those checked last."""
        state = self._rule_files.get_state()
        if state.last_request > state.last_served:
            return True
        if not files_changed:
            return False
        paths = self._settings.find_rule_files()
        # A workspace that never had rule files gets its rules from `rules apply` alone.
        if not paths and state.digest is None:
            return False
        return state.digest != compute_digest(paths)

    def stat_files(self) -> tuple[_FileStat, ...]:
        """Name, modification time and size of each file, to detect changes without reading."""
        stats: list[_FileStat] = []
        for path in self._settings.find_rule_files():
            try:
                status = path.stat()
            except OSError:
                continue
            stats.append(_FileStat(str(path), status.st_mtime_ns, status.st_size))
        return tuple(stats)


class RuleReloader:
    """A thread of the live process that applies rule files, with its own connection."""

    def __init__(
        self,
        start_spark: StartSpark,
        settings: Settings,
        admission: RuleAdmission,
        requested: threading.Event,
    ) -> None:
        """`requested`: set to check the files at once."""
        self._start_spark = start_spark
        self._settings = settings
        self._admission = admission
        self._requested = requested
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start watching the files."""
        self._thread = start_daemon(self._run, "rules")

    def stop(self) -> None:
        """Stop after a running check, or after a timeout."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(_STOP_TIMEOUT)

    def _run(self) -> None:
        while not self._stop.wait(_POLL_INTERVAL):
            try:
                with connect_database(self._settings, "rules") as connection:
                    loader = RuleFileLoader(
                        self._start_spark, self._settings, connection, self._admission
                    )
                    self._watch_files(loader)
            except SPARK_LOST:
                return  # the process ends
            except Exception:
                _LOG.exception("watching rule files failed", action="rules_watch_failed")

    def _watch_files(self, loader: RuleFileLoader) -> None:
        previous_stats: tuple[_FileStat, ...] | None = None
        checked_stats: tuple[_FileStat, ...] | None = None
        while not self._stop.wait(_POLL_INTERVAL):
            stats = loader.stat_files()
            is_stable = stats == previous_stats
            changed = self._settings.watch_rules and is_stable and stats != checked_stats
            previous_stats = stats
            if self._requested.is_set() or loader.is_check_due(changed):
                self._requested.clear()
                _try_apply(loader)
            if changed:
                checked_stats = stats


def _try_apply(loader: RuleFileLoader) -> None:
    try:
        loader.apply()
    except MoiraeError as error:
        _LOG.error("rule files rejected", action="rules_rejected", problems=str(error))


def _log_warnings(warnings: Iterable[Problem]) -> None:
    for problem in warnings:
        _LOG.warning("rule file has a warning", action="rules_warning", problem=str(problem))


def _log_steps(steps: Sequence[DeploymentStep]) -> None:
    for step in steps:
        _LOG.debug("rule applied", action=f"rule_{step.action}", rule=step.rule)
    if steps:
        counts: Counter[str] = Counter(step.action for step in steps)
        _LOG.info("rules applied", action="rules_applied", **counts)


def _problem_texts(error: MoiraeError) -> list[str]:
    if isinstance(error, ProblemsError):
        return [str(problem) for problem in error.problems]
    return [str(error)]
