"""Events of a rule by columns: objects are made only of those that are asked for. No I/O."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from archiver.times import MicrosArray
from moirae.alerts.event import Event

Positions: TypeAlias = npt.NDArray[np.int64]
"""Positions in columns, from 0; or numbers that distinct values have."""


class EventKey(NamedTuple):
    """The values of the key columns, and their fingerprint."""

    fingerprint: str
    values: Mapping[str, Any]


@dataclass(frozen=True)
class EventColumns:
    """Unique events. Those of one key and time are in the order of their IDs.

    `keys`: those of the events, and maybe others, each once. `key_numbers`: of each event, the
    position of its key there. `make_events`: the events at some positions, in that order.
    """

    times: MicrosArray
    keys: Sequence[EventKey]
    key_numbers: Positions
    make_events: Callable[[Positions], list[Event]]

    def __len__(self) -> int:
        return len(self.times)

    def select(self, positions: Positions) -> "EventColumns":
        """The events at some positions, which ascend."""

        def make_events(selected: Positions) -> list[Event]:
            return self.make_events(positions[selected])

        key_numbers = self.key_numbers[positions]
        return EventColumns(self.times[positions], self.keys, key_numbers, make_events)

    @classmethod
    def of_events(cls, events: Sequence[Event]) -> "EventColumns":
        """Events in (ts, ID) order."""
        numbers: dict[str, int] = {}
        keys: list[EventKey] = []
        key_numbers = np.empty(len(events), np.int64)
        for position, event in enumerate(events):
            if event.fingerprint not in numbers:
                numbers[event.fingerprint] = len(keys)
                keys.append(EventKey(event.fingerprint, event.key))
            key_numbers[position] = numbers[event.fingerprint]

        def make_events(positions: Positions) -> list[Event]:
            return [events[position] for position in positions.tolist()]

        times = np.fromiter((event.ts for event in events), np.int64, len(events))
        return cls(times, keys, key_numbers, make_events)
