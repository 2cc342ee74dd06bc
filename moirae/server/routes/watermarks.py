"""`/api/v1/streams/{stream}/watermark`: a source closes event time, so that windows need not wait."""

from collections.abc import Mapping
from typing import Annotated, Any

import orjson
from fastapi import FastAPI, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from archiver.clock import unix_now
from archiver.delta import StreamSchema
from archiver.ingest import find_punctuation_problem
from moirae.config import Settings, stream_schema
from moirae.errors import RequestRejected
from moirae.server.ingest import IngestHandler
from moirae.server.responses import json_response, require_stream
from moirae.server.route_table import RouteAccess

WATERMARK_PATH = "/api/v1/streams/{stream}/watermark"
_MICROS_PER_SECOND = 1_000_000


class Watermark(BaseModel):
    """No row, or none of a key, before this event time will follow."""

    model_config = ConfigDict(extra="forbid")

    time: Annotated[
        str | int | float,
        Field(description="The time, as event times of the stream are written."),
    ]
    key: Annotated[
        dict[str, str | int | float | bool | None],
        Field(description="Fields of all key columns: for this key alone. Default: for all rows."),
    ] = {}


def add_watermark_route(
    app: FastAPI, settings: Settings, ingest_handler: IngestHandler
) -> list[RouteAccess]:
    """Add the route."""
    schemas: dict[str, StreamSchema] = {}
    for name, declared in settings.streams.items():
        if declared.punctuation is not None:
            schemas[name] = stream_schema(name, declared)

    @app.post(
        WATERMARK_PATH,
        tags=["archive"],
        status_code=202,
        openapi_extra={"x-required-role": "source"},
    )
    def close_time(stream: str, watermark: Watermark, request: Request) -> Response:
        """Say that no row of a stream, or of one of its keys, before an event time will follow.

        The stream has the key `punctuation` and `source: {http: true}`. The time is written as a
        record of its own, after all rows that were answered before; older rows that follow are late.
        """
        require_stream(request.scope, stream)
        line = _write_record(schemas, stream, watermark)
        batch = ingest_handler.store_record(stream, line)
        answer: dict[str, Any] = {"stream": stream, "batch": batch}
        return json_response(answer, 202)

    return [RouteAccess("POST", WATERMARK_PATH, "source", has_json_body=True)]


def _write_record(schemas: Mapping[str, StreamSchema], stream: str, watermark: Watermark) -> bytes:
    """The record that closes the time. Raises `RequestRejected`."""
    schema = schemas.get(stream)
    if schema is None:
        raise RequestRejected(404, "no stream of this name declares punctuation")
    if schema.punctuation in watermark.key:
        raise RequestRejected(400, f"key: {schema.punctuation} is no field of the key")
    line = orjson.dumps({**watermark.key, schema.punctuation: watermark.time})
    problem = find_punctuation_problem(schema, line, int(unix_now() * _MICROS_PER_SECOND))
    if problem is not None:
        raise RequestRejected(400, f"time: {problem}")
    return line + b"\n"
