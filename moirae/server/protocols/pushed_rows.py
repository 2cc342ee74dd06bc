"""What a request of a protocol brings."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from moirae.config import LokiSource, Matcher, RemoteWriteSource, Stream

Selectors = Sequence[Sequence[Matcher]]


@dataclass
class PushedRows:
    """The rows of a request by stream, as JSON lines, and what is no row by stream and reason.

    The stream of what none takes is empty. `taken`: how many samples a stream took.
    """

    lines: dict[str, list[bytes]] = field(default_factory=dict)
    skipped: Counter[tuple[str, str]] = field(default_factory=Counter)
    taken: int = 0

    def add(self, streams: Sequence[str], lines: Sequence[bytes]) -> None:
        """Add rows for each of the streams; none: they are counted as unmatched."""
        if not streams:
            self.skipped["", "unmatched"] += len(lines)
        for stream in streams:
            self.lines.setdefault(stream, []).extend(lines)


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
