"""What a request of a protocol brings."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from moirae.config import LokiSource, Matcher, RemoteWriteSource, Stream
from moirae.errors import RequestRejected

Selectors = Sequence[Sequence[Matcher]]
MAX_ROW_BYTES = 64 << 20
"""Of the rows of a request, as JSON lines. What it says once, such as the labels of a series, is in each
row: a small request can have rows without end."""


@dataclass
class PushedRows:
    """The rows of a request by stream, as JSON lines, and what is no row by stream and reason.

    The stream of what none takes is empty. `taken`: how many samples a stream took. `size`: bytes of
    the rows, of `max_bytes` at most.
    """

    lines: dict[str, list[bytes]] = field(default_factory=dict)
    skipped: Counter[tuple[str, str]] = field(default_factory=Counter)
    taken: int = 0
    size: int = field(default=0, compare=False)
    max_bytes: float = MAX_ROW_BYTES

    def add(self, streams: Sequence[str], line: bytes) -> None:
        """Add a row for each of the streams; none: it is counted as unmatched.

        Raises `RequestRejected` if there are too many bytes.
        """
        if not streams:
            self.skipped["", "unmatched"] += 1
            return
        self.reserve(len(line) * len(streams))
        for stream in streams:
            self.lines.setdefault(stream, []).append(line)

    def reserve(self, size: int) -> None:
        """Count bytes of rows. Raises `RequestRejected` if there are too many."""
        self.size += size
        if self.size > self.max_bytes:
            raise RequestRejected(
                413, f"the rows of the request are too large: limit {self.max_bytes} bytes"
            )


def list_selectors(
    streams: Mapping[str, Stream], source: type[LokiSource | RemoteWriteSource]
) -> dict[str, tuple[tuple[Matcher, ...], ...]]:
    """What the streams of a source take, by stream."""
    return {
        name: stream.source.match
        for name, stream in streams.items()
        if isinstance(stream.source, source)
    }


def find_streams(selectors: Mapping[str, Selectors], labels: Mapping[str, str]) -> list[str]:
    """The streams that take something with the labels. `selectors`: by stream; none: it takes all."""
    return [
        stream
        for stream, alternatives in selectors.items()
        if not alternatives or any(_selects(selector, labels) for selector in alternatives)
    ]


def _selects(selector: Iterable[Matcher], labels: Mapping[str, str]) -> bool:
    return all(matcher.matches(labels) for matcher in selector)
