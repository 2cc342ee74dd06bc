"""How the event times of a stream are read."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal

TimeUnit = Literal["s", "ms", "us", "ns"]


@dataclass(frozen=True)
class TimeReading:
    """`unit`: of numbers since 1970, None: seconds. `formats`: of texts, the first that fits.

    `zone`: of times without an offset. `ambiguous`: which of the two instants of a time that comes
    twice, when clocks are put back. `missing`: what a time means that clocks skip. `parts`: fields
    that are joined with a blank instead of the column's own, such as date and time.
    """

    unit: TimeUnit | None = None
    formats: tuple[str, ...] = ()
    zone: str = "UTC"
    ambiguous: Literal["earlier", "later", "reject"] = "earlier"
    missing: Literal["reject", "forward"] = "reject"
    parts: tuple[str, ...] = ()

    def encode(self) -> dict[str, Any]:
        """As JSON, without what is not declared."""
        document: dict[str, Any] = {}
        for option in fields(self):
            value = getattr(self, option.name)
            if value != option.default:
                document[option.name] = list(value) if isinstance(value, tuple) else value
        return document

    @classmethod
    def decode(cls, document: Mapping[str, Any]) -> "TimeReading":
        """What `encode` returned."""
        options = dict(document)
        for name in ("formats", "parts"):
            if name in options:
                options[name] = tuple(options[name])
        return cls(**options)


DEFAULT_TIME_READING = TimeReading()
