"""The keys of the workspace file that must be alike on all machines of a workspace."""

from collections.abc import Mapping, Sequence

from moirae.config.changed_declarations import digest_value
from moirae.config.settings import Settings
from moirae.config.streams import FileSource, Stream

# Read at the start of a process. Keys that processes read again while they run, such as `routes`,
# are not compared: the reference would be older than what is in force.
_KEYS = ("chunks", "limits", "landing", "archive_history", "no_input", "resolve_timeout")


def digest_shared_values(settings: Settings) -> Mapping[str, str]:
    """A hash of each value, by key: `chunks`, `streams.cpu`. Secrets do not count."""
    values = {key: repr(getattr(settings, key)) for key in _KEYS}
    for name, stream in settings.streams.items():
        values[f"streams.{name}"] = _describe_stream(stream)
    for name, relation in settings.relations.items():
        values[f"relations.{name}"] = relation.model_dump_json()
    return {key: digest_value(value) for key, value in values.items()}


def _describe_stream(stream: Stream) -> str:
    """Files that grow are those of a machine: each has its own."""
    if isinstance(stream.source, FileSource) and stream.source.tail:
        stream = stream.model_copy(
            update={"source": stream.source.model_copy(update={"files": ""})}
        )
    return stream.model_dump_json()


def list_differences(reference: Mapping[str, str], own: Mapping[str, str]) -> Sequence[str]:
    """The keys whose values differ, or which one of both lacks, sorted."""
    return sorted(key for key in {*reference, *own} if reference.get(key) != own.get(key))
