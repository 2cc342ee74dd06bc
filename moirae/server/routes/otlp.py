"""Accepts requests of OTLP over HTTP."""

from fastapi import Request
from starlette.responses import Response

from moirae.config import OtlpSource, Settings
from moirae.errors import RequestRejected
from moirae.server.ingest import IngestHandler
from moirae.server.pool import ConnectionPool
from moirae.server.protocols.otlp import OtlpReader, Signal
from moirae.server.protocols.otlp_messages import load_messages
from moirae.server.protocols.rpc_status import JSON, PROTOBUF
from moirae.server.request_body import decompress
from moirae.server.responses import read_identity, read_media_type
from moirae.server.routes.pushed_input import PushedInput

_MEDIA_TYPES = (PROTOBUF, JSON)


class Otlp:
    """Accepts requests of OTLP for one signal."""

    def __init__(
        self,
        signal: Signal,
        settings: Settings,
        pool: ConnectionPool,
        ingest_handler: IngestHandler,
    ) -> None:
        selectors = {
            name: stream.source.match
            for name, stream in settings.streams.items()
            if isinstance(stream.source, OtlpSource) and stream.source.otlp == signal
        }
        self._input = PushedInput(
            pool,
            ingest_handler,
            selectors,
            lambda taken: OtlpReader(load_messages(), signal, taken),
            f"no stream takes {signal}: declare one with source: {{otlp: {signal}}}",
        )

    async def accept(self, request: Request) -> Response:
        """Store the records of a request durably. Raises `RequestRejected`."""
        media_type = read_media_type(request.headers)
        if media_type not in _MEDIA_TYPES:
            types = " or ".join(_MEDIA_TYPES)
            raise RequestRejected(415, f"unsupported Content-Type: use {types}")
        encoding = request.headers.get("content-encoding", "identity").strip().lower()
        if encoding not in ("identity", "gzip"):
            raise RequestRejected(415, "unsupported Content-Encoding: use gzip")
        is_json = media_type == JSON

        def unpack(body: bytes, max_bytes: int) -> bytes:
            return decompress(body, "gzip", max_bytes) if encoding == "gzip" else body

        reader = self._input.find_reader(read_identity(request.scope).stream)
        pushed = await self._input.accept(
            request, unpack, lambda taken, content: taken.read(content, is_json)
        )
        return Response(reader.make_response(pushed, is_json), media_type=media_type)
