"""Archive schemas of declared streams."""

from archiver.delta import StreamSchema
from moirae.config.streams import Stream


def stream_schema(name: str, declared: Stream) -> StreamSchema:
    """The archive schema of a declared stream."""
    return StreamSchema(
        name,
        declared.columns,
        declared.time,
        declared.id,
        declared.key,
        declared.lateness,
        declared.future,
    )
