"""Episodes: the events of one occurrence of a cause, which weigh as one sample. No I/O.

Events of one burst are not independent: they have one cause, and what is learned from the first
holds for the others. An episode has the events of one tag (or, while no tag is known, with equal
terms) that are at most `gap` apart from its first one. A later event begins a new episode, also if
it follows the last one closely: episodes do not chain.
"""

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field

from archiver.times import Micros


@dataclass
class _Episode:
    first_ts: Micros
    contexts: set[Hashable] = field(default_factory=set)


class Episodes:
    """Assigns events to episodes, in the order in which their keys become known.

    So membership depends only on what was known before. Events may be added out of time order: one
    that is older than the first of its episode, by `gap` at most, belongs to it.
    """

    def __init__(self, gap: Micros) -> None:
        self._gap = gap
        self._newest: dict[Hashable, _Episode] = {}

    def add(self, key: Hashable, ts: Micros, context: Hashable) -> int:
        """Add an event. Returns how many different contexts its episode has with it.

        1: it begins a new episode. 0: the episode has an event with the same context.
        """
        episode = self._newest.get(key)
        if episode is None or abs(ts - episode.first_ts) > self._gap:
            self._newest[key] = _Episode(ts, {context})
            return 1
        if context in episode.contexts:
            return 0
        episode.contexts.add(context)
        return len(episode.contexts)


def number_episodes(events: Iterable[tuple[Hashable, Micros]], gap: Micros) -> list[int]:
    """The number of each event's episode, from 0. `events`: key and time, in time order."""
    newest: dict[Hashable, tuple[Micros, int]] = {}
    numbers = []
    count = 0
    for key, ts in events:
        first = newest.get(key)
        if first is None or ts - first[0] > gap:
            first = ts, count
            newest[key] = first
            count += 1
        numbers.append(first[1])
    return numbers
