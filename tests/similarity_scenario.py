"""A generated similarity scenario, and its answers in pure Python, by the formulas of
docs/concepts/similarity.md.

Nothing of Moirae is imported here: the answers are a reference that is independent of the code under test.
"""

import math
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

Context = dict[str, int]
Answers = dict[str, list[tuple[str, float]]]
"""Past events of each query, best first, with their scores."""

START = datetime(2026, 1, 1, tzinfo=UTC)
# Digits to which scores are compared: contexts that are equally similar on paper tie.
SCORE_DIGITS = 12


@dataclass(frozen=True)
class ScenarioEvent:
    """An event with its context, as a line of `moirae similarity run --events`."""

    event_id: str
    event_type: str
    ts: datetime
    facts: Context
    group: str | None = None
    """Events of one group, such as one incident, never answer each other."""


def scenario(seed: int, grouped: bool = False, events: int = 240) -> list[ScenarioEvent]:
    """Events of two types in file order, which is not quite the order of time; `grouped`: most are in a group.

    It has what the formulas decide about: bursts within an hour, equal times, equal contexts, terms that occur several
    times in a context, a term that every event of a type holds, empty contexts, and contexts without a common term.
    """
    rng = random.Random(seed)
    causes = [[f"process=p{rng.randrange(60)}" for _ in range(4)] for _ in range(9)]
    generated: list[ScenarioEvent] = []
    ts = START
    for number in range(events):
        # Every third event follows within minutes or at the same time, the others after hours.
        minutes = rng.choice([0, 0, 5, 20]) if number % 3 == 0 else rng.randrange(20, 400)
        ts += timedelta(minutes=minutes)
        event_type = "disk" if rng.random() < 0.7 else "network"
        cause = rng.randrange(len(causes))
        facts = _context(rng, event_type, causes[cause])
        group = f"incident-{number // 4}" if grouped and number % 5 else None
        generated.append(ScenarioEvent(f"e{number:03}", event_type, ts, facts, group))
    # In the file some neighbours are exchanged; events of equal times keep the order of the file.
    for place in range(0, events - 1, 7):
        generated[place], generated[place + 1] = generated[place + 1], generated[place]
    return generated


def _context(rng: random.Random, event_type: str, cause: Sequence[str]) -> Context:
    if rng.random() < 0.04:
        return {}
    facts: Context = {f"type={event_type}": 1}
    if rng.random() < 0.06:
        # A context of its own: nothing in common with any other but the term that all events hold.
        facts[f"message=m{rng.randrange(10**9)}"] = rng.randint(1, 3)
        return facts
    if rng.random() < 0.4:
        # The same context as other events of this cause.
        return facts | dict.fromkeys(cause, 1)
    for term in cause:
        if rng.random() < 0.75:
            facts[term] = rng.choice([1, 1, 1, 2, 5])
    for _ in range(rng.randrange(3)):
        facts[f"user=u{rng.randrange(12)}"] = 1
    return facts


def weights(
    context: Context, corpus: Sequence[Context], log10: Callable[[float], float] = math.log10
) -> dict[str, float]:
    """w(i, k) = tf(i, k) · log10(E / C_k): the weight of each term of a context."""
    weighted = {}
    for term, term_frequency in context.items():
        containing = sum(1 for counted in corpus if term in counted)
        weighted[term] = term_frequency * log10(len(corpus) / containing)
    return weighted


def cosine(one: dict[str, float], other: dict[str, float]) -> float:
    """The cosine of two weight vectors; 0 where one of them has no length."""
    product = math.fsum(weight * other[term] for term, weight in one.items() if term in other)
    lengths = [
        math.sqrt(math.fsum(weight**2 for weight in vector.values())) for vector in (one, other)
    ]
    return product / math.prod(lengths) if all(lengths) else 0.0


def expected_answers(
    events: Iterable[ScenarioEvent], gap: timedelta, k: int, leave_one_out: bool = False
) -> tuple[Answers, Answers]:
    """The k most similar past events of each event; and all candidates with a score above 0, best first.

    Online: E and C_k count the events of the type up to and including the query, in order of time, equal times in file
    order; candidates are older than the query, by `gap` at least. `leave_one_out`: counts are over the whole file, and
    candidates are all other events of the type. Events of the query's group are no candidates.
    """
    ordered = sorted(events, key=lambda event: event.ts)
    top: Answers = {}
    every: Answers = {}
    for position, query in enumerate(ordered):
        counted = ordered if leave_one_out else ordered[: position + 1]
        of_type = [event for event in counted if event.event_type == query.event_type]
        corpus = [event.facts for event in of_type]
        query_weights = weights(query.facts, corpus)
        scored = []
        for order, past in enumerate(of_type):
            if not is_candidate(query, past, gap, leave_one_out):
                continue
            score = round(cosine(query_weights, weights(past.facts, corpus)), SCORE_DIGITS)
            if score > 0:
                scored.append((score, order, past.event_id))
        # Highest score first; of equal scores the newer event, of equal times the later one in the file.
        scored.sort(reverse=True)
        every[query.event_id] = [(event_id, score) for score, _, event_id in scored]
        top[query.event_id] = every[query.event_id][:k]
    return top, every


def is_candidate(
    query: ScenarioEvent, past: ScenarioEvent, gap: timedelta, leave_one_out: bool
) -> bool:
    """Whether an event of the same type may answer."""
    if past.group is not None and past.group == query.group:
        return False
    if leave_one_out:
        return past is not query
    return past.ts < query.ts and past.ts <= query.ts - gap
