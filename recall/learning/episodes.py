"""Episodes: the events of one occurrence of a cause, which weigh as one sample. No I/O.

Events of one burst are not independent: they have one cause, and what is learned from the first
holds for the others. An episode has the events of one tag (or, while no tag is known, with equal
terms) that are at most `gap` apart from its first one. A later event begins a new episode, also if
it follows the last one closely: episodes do not chain.
"""

from collections.abc import Hashable, Iterable

from archiver.times import Micros


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
