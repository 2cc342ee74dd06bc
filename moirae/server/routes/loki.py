"""Accepts requests of Loki's push protocol."""

from fastapi import Request
from starlette.responses import Response

from moirae.config import LokiSource, Settings
from moirae.errors import RequestRejected
from moirae.server.ingest import IngestHandler
from moirae.server.pool import ConnectionPool
from moirae.server.protocols.loki import LokiReader
from moirae.server.protocols.pushed_rows import list_selectors
from moirae.server.protocols.remote_write import decompress_block
from moirae.server.protocols.rpc_status import JSON, PROTOBUF
from moirae.server.request_body import decompress
from moirae.server.responses import read_media_type
from moirae.server.routes.pushed_input import PushedInput


class Loki:
    """Accepts requests."""

    def __init__(
        self, settings: Settings, pool: ConnectionPool, ingest_handler: IngestHandler
    ) -> None:
        self._input = PushedInput(
            pool,
            ingest_handler,
            list_selectors(settings.streams, LokiSource),
            LokiReader,
            "no stream takes log entries: declare one with source: {loki: true}",
        )

    async def accept(self, request: Request) -> Response:
        """Store the entries of a request durably. Raises `RequestRejected`."""
        media_type = read_media_type(request.headers)
        encoding = request.headers.get("content-encoding", "").strip().lower()
        if media_type not in (JSON, PROTOBUF):
            raise RequestRejected(415, f"unsupported Content-Type: use {PROTOBUF} or {JSON}")
        is_json = media_type == JSON
        # Protocol Buffers are always a snappy block, whether a header says so or not.
        if encoding not in (("", "identity", "gzip") if is_json else ("", "snappy")):
            raise RequestRejected(415, "unsupported Content-Encoding")

        def unpack(body: bytes, max_bytes: int) -> bytes:
            if not is_json:
                return decompress_block(body, max_bytes)
            return decompress(body, "gzip", max_bytes) if encoding == "gzip" else body

        await self._input.accept(request, unpack, lambda reader, body: reader.read(body, is_json))
        return Response(status_code=204)
