"""The events of a back-test, slice by slice. No I/O."""

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from archiver.times import MicrosArray
from moirae.alerts import Event, EventColumns, EventKey, Positions


@dataclass
class BacktestEvents:
    """Events of parts that share no key at one time. `keys`: by number, in order of appearance."""

    keys: list[EventKey] = field(default_factory=list)
    _numbers: dict[str, int] = field(default_factory=dict)
    """By fingerprint."""
    _parts: list[EventColumns] = field(default_factory=list)

    def __len__(self) -> int:
        return sum(map(len, self._parts))

    def add(self, parts: Iterable[EventColumns]) -> None:
        """Add the events of a slice."""
        for part in parts:
            numbers = np.fromiter(map(self._number, part.keys), np.int64, len(part.keys))
            key_numbers = numbers[part.key_numbers]
            self._parts.append(EventColumns(part.times, self.keys, key_numbers, part.make_events))

    def _number(self, key: EventKey) -> int:
        number = self._numbers.setdefault(key.fingerprint, len(self.keys))
        if number == len(self.keys):
            self.keys.append(key)
        return number

    @property
    def times(self) -> MicrosArray:
        """Of each event."""
        return np.concatenate([np.empty(0, np.int64), *(part.times for part in self._parts)])

    @property
    def key_numbers(self) -> Positions:
        """Of each event, the position of its key in `keys`."""
        parts = [part.key_numbers for part in self._parts]
        return np.concatenate([np.empty(0, np.int64), *parts])

    def make_events(self, positions: Positions) -> list[Event]:
        """The events at some positions, in that order."""
        ends = np.cumsum([len(part) for part in self._parts])
        part_numbers = np.searchsorted(ends, positions, side="right")
        events = np.empty(len(positions), object)
        for number in np.unique(part_numbers).tolist():
            part = self._parts[number]
            is_of_part = part_numbers == number
            events[is_of_part] = part.make_events(positions[is_of_part] - ends[number] + len(part))
        return events.tolist()
