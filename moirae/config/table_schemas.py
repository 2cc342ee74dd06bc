"""From what a workspace declares to what the archive needs to know of it."""

from archiver.delta import StreamSchema
from moirae.config.streams import Stream


def stream_schema(name: str, declared: Stream) -> StreamSchema:
    """The archive's view of a declared stream."""
    return StreamSchema(
        name,
        declared.columns,
        declared.time,
        declared.id,
        declared.key,
        declared.lateness,
        declared.future,
    )
