"""Accepts requests of remote write, in the version that their Content-Type names."""

from fastapi import Request
from starlette.responses import Response

from moirae.config import RemoteWriteSource, Settings
from moirae.errors import RequestRejected
from moirae.server.ingest import IngestHandler
from moirae.server.pool import ConnectionPool
from moirae.server.protocols.pushed_rows import list_selectors
from moirae.server.protocols.remote_write import SeriesReader, count_invalid, decompress_block
from moirae.server.protocols.rpc_status import PROTOBUF
from moirae.server.responses import error_response
from moirae.server.routes.pushed_input import PushedInput

# The parameter `proto` of the Content-Type; without it the version is 1.0.
_VERSIONS = {"": 1, "prometheus.WriteRequest": 1, "io.prometheus.write.v2.Request": 2}
_WRITTEN = "X-Prometheus-Remote-Write-{}-Written"  # headers of version 2.0


class RemoteWrite:
    """Accepts requests of remote write."""

    def __init__(
        self, settings: Settings, pool: ConnectionPool, ingest_handler: IngestHandler
    ) -> None:
        self._input = PushedInput(
            pool,
            ingest_handler,
            list_selectors(settings.streams, RemoteWriteSource),
            SeriesReader,
            "no stream takes samples: declare one with source: {remote_write: true}",
        )

    async def accept(self, request: Request) -> Response:
        """Store the samples of a request durably. Raises `RequestRejected`.

        A request with invalid series or samples is answered with status 400 when its others are stored:
        senders report it, and do not repeat it.
        """
        is_version_2 = _read_version(request) == 2
        pushed = await self._input.accept(
            request,
            decompress_block,
            lambda reader, content: reader.read(content, is_version_2),
        )
        response = Response(status_code=204)
        if invalid := count_invalid(pushed):
            message = f"{invalid} series or samples are invalid and left out; the others are stored"
            response = error_response(RequestRejected(400, message))
        if is_version_2:
            written = {"Samples": pushed.taken, "Histograms": 0, "Exemplars": 0}
            for name, count in written.items():
                response.headers[_WRITTEN.format(name)] = str(count)
        return response


def _read_version(request: Request) -> int:
    """The version of the protocol. Raises `RequestRejected`."""
    if request.headers.get("content-encoding", "").strip().lower() != "snappy":
        raise RequestRejected(415, "unsupported Content-Encoding: use snappy")
    media_type, *parameters = map(str.strip, request.headers.get("content-type", "").split(";"))
    declared = dict(parameter.partition("=")[::2] for parameter in parameters)
    version = _VERSIONS.get(declared.get("proto", "").strip('"'))
    if media_type.lower() != PROTOBUF or version is None:
        types = " or ".join(f"{PROTOBUF};proto={name}" for name in _VERSIONS if name)
        raise RequestRejected(415, f"unsupported Content-Type: use {types}")
    return version
