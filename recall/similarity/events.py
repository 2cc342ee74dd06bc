"""Events of a corpus: key, sequence number, counted terms and numeric values. No I/O."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from archiver.times import Micros

# Event time and event ID.
EventKey = tuple[int, str]
# By the name of a context: its rows, as columns with their values as text (None: NULL).
ContextTables = Mapping[str, Sequence[Mapping[str, str | None]]]


@dataclass(frozen=True, slots=True)
class CorpusEvent:
    """An event with its context.

    `sequence`: the order in which events entered the corpus, from 1.
    `term_counts`: how often the context contains each term. `numeric_values`: the values of each
    numeric attribute, which is identified by its position among the sorted names.
    """

    ts: Micros
    eid: str
    sequence: int
    term_counts: Mapping[str, int]
    numeric_values: Mapping[int, Sequence[float]] = field(default_factory=dict)

    @property
    def key(self) -> EventKey:
        return self.ts, self.eid


def make_corpus_event(
    ts: Micros,
    eid: str,
    sequence: int,
    contexts: ContextTables,
    names: Iterable[str],
    numeric: Mapping[str, Any],
) -> CorpusEvent:
    """Build an event from its contexts of the given `names`.

    Each value becomes a term `attribute=value`. Finite values of the attributes in `numeric`
    become numeric values instead. NULL contributes nothing.
    """
    term_counts: dict[str, int] = {}
    numeric_values: dict[int, list[float]] = {}
    attribute_ids = {attribute: number for number, attribute in enumerate(sorted(numeric))}
    for name in names:
        for row in contexts.get(name, ()):
            for attribute, text in row.items():
                if text is None:
                    continue
                value = None
                if attribute in attribute_ids:
                    value = _parse_finite(text)
                if value is not None:
                    numeric_values.setdefault(attribute_ids[attribute], []).append(value)
                else:
                    term = f"{attribute}={text}"
                    term_counts[term] = term_counts.get(term, 0) + 1
    return CorpusEvent(ts, eid, sequence, term_counts, numeric_values)


def count_terms(contexts: ContextTables, names: Iterable[str]) -> Mapping[str, int]:
    """The term counts of the contexts of the given `names`, with numbers as text."""
    return make_corpus_event(0, "", 0, contexts, names, {}).term_counts


def _parse_finite(text: str) -> float | None:
    """None if the text is not a finite number."""
    try:
        value = float(text)
    except ValueError:
        return None
    if not math.isfinite(value):
        return None
    return value
