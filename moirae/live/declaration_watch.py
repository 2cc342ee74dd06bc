"""Reads the workspace file again when it has changed while the process runs.

Says once that streams or relations were changed, which takes effect at the next start.
"""

from collections.abc import Callable
from contextlib import suppress

import structlog

from moirae.config import (
    Settings,
    describe_changed_declarations,
    digest_declarations,
    load_settings_from_environment,
)
from moirae.errors import MoiraeError

_LOG = structlog.get_logger()


class DeclarationWatch:
    """Compares the workspace file with what the process has read of it.

    `apply`: is given the settings of each changed file, for keys that take effect at once.
    """

    def __init__(self, settings: Settings, apply: Callable[[Settings], None]) -> None:
        self._apply = apply
        self._file = settings.file
        self._declared = digest_declarations(settings)
        self._read_at = settings.file.stat().st_mtime_ns
        self._described: str | None = None

    def look(self) -> None:
        """Read the file if it has changed, and log what the process does not know of it."""
        with suppress(OSError, MoiraeError):  # an invalid file is reported by `moirae status`
            changed_at = self._file.stat().st_mtime_ns
            if changed_at == self._read_at:
                return
            self._read_at = changed_at
            settings = load_settings_from_environment(self._file)
            self._apply(settings)
            present = digest_declarations(settings)
            described = describe_changed_declarations(self._declared, present)
            if described is not None and described != self._described:
                _LOG.warning(
                    "workspace file changed",
                    action="declarations_changed",
                    file=str(self._file),
                    remedy=described,
                )
            self._described = described
