"""Streams that continue another one (`was: OLD`), before anything starts."""

from collections.abc import Sequence

from moirae.config import Settings, locate
from moirae.errors import Problem
from moirae.runtime.storage.archive import open_storage


def find_rename_problems(settings: Settings) -> list[Problem]:
    """Names in `was` that the archive does not know, with their positions.

    A misspelled name would make a new stream, which reads all files again. An archive without
    streams has nothing that could be read again. Empty if the archive cannot be read.
    """
    previous_names = {
        name: declared.was
        for name, declared in settings.streams.items()
        if declared.was is not None
    }
    if not previous_names:
        return []
    # Loaded here: the command line reads settings without it.
    from archiver.errors import ArchiverError
    from archiver.storage import as_storage

    streams = as_storage(open_storage(settings)) / "streams"
    try:
        unknown = [
            name
            for name, previous in previous_names.items()
            if not (streams / name).has_table() and not (streams / previous).has_table()
        ]
        archived = sorted(streams.folder_use_times()) if unknown else []
    except (ArchiverError, OSError):
        return []
    if not archived:
        return []
    removed = [name for name in archived if name not in settings.streams]
    return [
        locate(
            settings,
            ("streams", name, "was"),
            _describe_unknown(name, previous_names[name], removed),
        )
        for name in unknown
    ]


def _describe_unknown(name: str, previous: str, removed: Sequence[str]) -> str:
    candidates = "all archived streams are declared"
    if removed:
        candidates = f"archived and not declared: {', '.join(removed)}"
    return (
        f"no stream {previous!r} is archived ({candidates}): correct the name, or remove `was`; "
        f"{name!r} is a new stream then, which reads all its files"
    )
