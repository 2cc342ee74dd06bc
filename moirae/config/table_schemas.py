"""Archive schemas of declared streams."""

from datetime import timedelta
from typing import TYPE_CHECKING

from moirae.config.external_alerts import EXTERNAL_ALERTS
from moirae.config.streams import Relation, Stream

if TYPE_CHECKING:
    from archiver.delta import StreamSchema


def stream_schema(name: str, declared: Stream) -> "StreamSchema":
    """The archive schema of a declared stream."""
    # Loaded here: the command line reads settings without it.
    from archiver.delta import StreamSchema

    return StreamSchema(
        name,
        declared.columns,
        declared.time,
        declared.id,
        declared.key,
        declared.lateness,
        declared.future,
        fields=declared.fields,
        was=declared.renamed,
        time_reading=declared.time_reading,
        identity=declared.identity,
        redactions=declared.redactions,
        measured=declared.measured,
        punctuation=declared.punctuation,
        is_never_late=name == EXTERNAL_ALERTS,
    )


def relation_schema(name: str, declared: Relation) -> "StreamSchema":
    """The schema by which rows of a relation are decoded, as those of streams are."""
    from archiver.delta import StreamSchema

    return StreamSchema(
        name,
        declared.columns,
        time=declared.valid_from or "",
        id=None,
        key=declared.key,
        lateness=timedelta(0),
        future=timedelta(0),
        fields=declared.fields,
    )
