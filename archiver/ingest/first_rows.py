"""Event times of the first rows of streams, which stay when these rows expire."""

from collections.abc import Callable, Mapping

from archiver.delta import StreamTable
from archiver.ingest.ledger import Catalog
from archiver.read import find_first_time
from archiver.times import Micros


class FirstRows:
    """Finds the first row of a stream when it is asked for, and stores its time once it is final.

    `watermark`: of a stream; earlier rows are late and are not counted.
    """

    def __init__(
        self,
        catalog: Catalog,
        tables: Mapping[str, StreamTable],
        watermark: Callable[[str], Micros | None],
    ) -> None:
        self._catalog = catalog
        self._tables = tables
        self._watermark = watermark
        self._times: dict[str, Micros] | None = None

    def time(self, stream: str) -> Micros | None:
        """The event time of the first row; None: there is none."""
        if self._times is None:
            self._times = self._catalog.first_times()
        if stream in self._times:
            return self._times[stream]
        first = find_first_time(self._tables[stream])
        watermark = self._watermark(stream)
        if first is not None and watermark is not None and first < watermark:
            self._catalog.put_first_time(stream, first)
            self._times[stream] = first
        return first
