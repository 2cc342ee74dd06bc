"""Generated events with tags, for tests of learning."""

import numpy as np

from recall.learning.build import TrainingEvent

HOUR = 3_600_000_000  # microseconds
TAGS = ("disk", "cpu", "net")


def make_events(count: int, seed: int = 1) -> tuple[list[TrainingEvent], dict[str, str]]:
    """Events six hours apart with their tags. One of three terms tells the tag, most of the time."""
    rng = np.random.default_rng(seed)
    events, tags = [], {}
    for number in range(count):
        tag = TAGS[int(rng.integers(3))]
        shown = tag if rng.random() < 0.8 else TAGS[int(rng.integers(3))]
        terms = {
            f"msg={shown}": 1,
            f"host=n{int(rng.integers(5))}": 1,
            f"user=u{int(rng.integers(30))}": 1,
        }
        event_id = f"{number:08d}"
        events.append(TrainingEvent(event_id, number * 6 * HOUR, terms, f"n{number % 5}"))
        tags[event_id] = tag
    return events, tags
