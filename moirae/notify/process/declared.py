"""The workspace file as it is in force: taken again when it changes, or as before if it is wrong."""

import hashlib
from collections.abc import Callable
from pathlib import Path

import structlog

from moirae.config import Settings, load_settings_from_environment
from moirae.errors import MoiraeError, ProblemsError

_LOG = structlog.get_logger()


class DeclaredSettings:
    """The settings of the workspace, as of the last file without problems."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._path = settings.file
        self._digest = _hash(self._path)

    def reload(
        self,
        is_forced: bool = False,
        load: Callable[[Path], Settings] = load_settings_from_environment,
    ) -> list[str] | None:
        """Read the file if it has changed; `is_forced`: read it in any case.

        Returns its problems, none if it is in force; None: it has not changed.
        """
        digest = _hash(self._path)
        if digest == self._digest and not is_forced:
            return None
        self._digest = digest
        try:
            self.settings = load(self._path)
        except MoiraeError as error:
            problems = (
                list(map(str, error.problems)) if isinstance(error, ProblemsError) else [str(error)]
            )
            _LOG.error(
                "workspace file rejected, the previous receivers and routes stay in use",
                action="notify_settings_rejected",
                problems=problems,
            )
            return problems
        _LOG.info("receivers and routes taken from the file", action="notify_settings_taken")
        return []


def read_declared(settings: Settings) -> Settings:
    """The settings of the workspace file now; the given ones if it has problems."""
    try:
        return load_settings_from_environment(settings.file)
    except MoiraeError:
        return settings


def _hash(path: Path) -> bytes | None:
    try:
        return hashlib.sha256(path.read_bytes()).digest()
    except OSError:
        return None
