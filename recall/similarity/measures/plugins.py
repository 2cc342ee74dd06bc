"""Measures of other packages: entry points of the group `moirae.measures`."""

from collections.abc import Collection, Iterator, Mapping
from functools import cached_property
from importlib.metadata import EntryPoint, entry_points
from typing import cast

import structlog

from recall.similarity.measures.measure import Measure

GROUP = "moirae.measures"
_METHODS = ("score_rows", "term_contributions")

_LOG = structlog.get_logger()


class Measures(Mapping[str, Measure]):
    """The measures of this package, and those of others, which are loaded when they are needed."""

    def __init__(self, own: Mapping[str, Measure], reserved_names: Collection[str]) -> None:
        """`reserved_names`: names that no other package may use, besides those of `own`."""
        self._own = own
        self._reserved_names = reserved_names

    @cached_property
    def _all(self) -> Mapping[str, Measure]:
        return {**self._own, **load_measures({*self._own, *self._reserved_names})}

    def __getitem__(self, name: str) -> Measure:
        return self._own[name] if name in self._own else self._all[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._all)


def load_measures(used_names: Collection[str]) -> dict[str, Measure]:
    """The measures that installed packages declare, by name.

    An entry point has the name of its measure; it refers to a measure, or to a class of measures
    that needs no arguments. One that cannot be loaded, or whose name is in use, is logged and left
    out.
    """
    measures: dict[str, Measure] = {}
    for point in entry_points(group=GROUP):
        try:
            if point.name in used_names or point.name in measures:
                raise ValueError("another measure has this name")
            measures[point.name] = _load_measure(point)
        except Exception as error:  # code of others may raise anything
            _LOG.warning(
                "measure cannot be loaded",
                action="measure_not_loaded",
                measure=point.name,
                entry_point=point.value,
                error=f"{type(error).__name__}: {error}",
            )
    return measures


def describe_packages() -> list[str]:
    """The measures that installed packages declare, as text that differs if they do. None is loaded."""
    points = entry_points(group=GROUP)
    return sorted(
        f"{point.name} = {point.value} {point.dist and point.dist.version}" for point in points
    )


def _load_measure(point: EntryPoint) -> Measure:
    measure = point.load()
    if isinstance(measure, type):
        measure = measure()
    if getattr(measure, "name", None) != point.name:
        raise ValueError(f"its attribute `name` must be {point.name!r}")
    missing = [method for method in _METHODS if not callable(getattr(measure, method, None))]
    if missing:
        raise ValueError(f"it has no method {missing[0]}")
    return cast(Measure, measure)
