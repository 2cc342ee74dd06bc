"""What an event probably is: the most probable tags of its resolution. No I/O."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

MIN_EPISODES = 20
"""With fewer episodes of known tag, no probabilities are stated."""


@dataclass(frozen=True)
class LabelShares:
    """The largest shares of tags, best first, and that of a tag that was never seen.

    `intervals`, `new_tag_interval`: of 95 %.
    """

    tags: list[tuple[str, float]]
    new_tag: float
    intervals: list[tuple[float, float]]
    new_tag_interval: tuple[float, float]


@dataclass(frozen=True)
class ResolutionForecast:
    """The most probable tags of an event, best first, and the probability of none of these.

    `new_tag`: the probability that the tag was never seen; without it and the tags that are not
    listed, the probabilities add up to less than 1. `intervals`, `new_tag_interval`: of 95 %.
    `episodes`: from how many the model has learned. `frequencies`: what is shown instead while
    forecasts are worse than plain frequencies.
    """

    tags: list[tuple[str, float]]
    new_tag: float
    episodes: int = 0
    intervals: list[tuple[float, float]] = field(default_factory=list)
    new_tag_interval: tuple[float, float] = (0.0, 1.0)
    frequencies: LabelShares | None = None

    @property
    def withheld(self) -> bool:
        """Whether there are too few episodes to say how probable a tag is."""
        return self.episodes < MIN_EPISODES

    def to_json(self) -> dict[str, Any]:
        """The fields by name, and `withheld`; without probabilities if they are withheld."""
        if self.withheld:
            return {"tags": [], "new_tag": None, "episodes": self.episodes, "withheld": True}
        return {**asdict(self), "withheld": False}


@dataclass(frozen=True)
class ForecastShares:
    """By tag, its probability and its share by plain frequencies; the same of a tag that was never
    seen.

    `withheld`: whether nothing was shown, so that the frequencies count as the forecast.
    """

    tags: Mapping[str, tuple[float, float]]
    new_tag: tuple[float, float]
    withheld: bool

    def to_json(self) -> dict[str, Any]:
        """The fields by name."""
        return asdict(self)
