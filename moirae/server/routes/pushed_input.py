"""Stores what a protocol without keys of batches sends, for the streams that take it."""

import hashlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Generic, TypeVar

from fastapi import Request
from starlette.concurrency import run_in_threadpool

from moirae.errors import RequestRejected
from moirae.server.ingest import ConvertedBody, IngestHandler
from moirae.server.pool import ConnectionPool
from moirae.server.protocols.pushed_rows import PushedRows, Selectors
from moirae.server.responses import read_identity
from sql.archive import SkippedRecordsGateway, SkippedRow

Reader = TypeVar("Reader")


class PushedInput(Generic[Reader]):
    """Accepts requests of a protocol. A token may be for one of the streams only."""

    def __init__(
        self,
        pool: ConnectionPool,
        ingest_handler: IngestHandler,
        selectors: Mapping[str, Selectors],
        make_reader: Callable[[Mapping[str, Selectors]], Reader],
        missing: str,
    ) -> None:
        """`selectors`: by stream. `missing`: the error if no stream takes what is sent."""
        self._pool = pool
        self._ingest_handler = ingest_handler
        self._selectors = selectors
        self._make_reader = make_reader
        self._missing = missing
        self._readers: dict[str | None, Reader] = {}

    async def accept(
        self,
        request: Request,
        unpack: Callable[[bytes, int], bytes],
        read: Callable[[Reader, bytes], PushedRows],
    ) -> PushedRows:
        """Store the rows of a request durably. Raises `RequestRejected`.

        `unpack`: decompresses a body, to so many bytes at most.
        """
        stream = read_identity(request.scope).stream
        reader = self.find_reader(stream)
        pushed = PushedRows()

        def convert(body: bytes) -> ConvertedBody:
            nonlocal pushed
            content = unpack(body, self._ingest_handler.max_unpacked_bytes)
            pushed = read(reader, content)
            lines = {name: b"".join(rows) for name, rows in pushed.lines.items() if rows}
            # A repeated request is recognised by its content: the protocol has no key.
            return ConvertedBody(lines, f"body-{hashlib.sha256(content).hexdigest()[:32]}")

        streams: Sequence[str] = [stream] if stream is not None else list(self._selectors)
        await self._ingest_handler.accept_records(request, streams, convert)
        if pushed.skipped:
            await run_in_threadpool(self._count_skipped, pushed.skipped)
        return pushed

    def find_reader(self, stream: str | None) -> Reader:
        """Reads what a token may send, for one stream or all. Raises `RequestRejected`."""
        if stream not in self._readers:
            selectors = self._selectors
            if stream is not None:
                selectors = {name: value for name, value in selectors.items() if name == stream}
            if not selectors:
                raise RequestRejected(404, self._missing)
            self._readers[stream] = self._make_reader(selectors)
        return self._readers[stream]

    def _count_skipped(self, skipped: Counter[tuple[str, str]]) -> None:
        with self._pool.connection() as connection:
            SkippedRecordsGateway(connection).add(
                SkippedRow(stream, reason, count) for (stream, reason), count in skipped.items()
            )
