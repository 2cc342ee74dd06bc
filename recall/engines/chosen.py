"""Which engine reads a piece: this process where it is known to answer as Spark does, else Spark."""

import time
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Literal
from uuid import UUID

import orjson
import pyarrow as pa

from recall.derived import Derived
from recall.engines.answers import Held, Merge, Rows, answer
from recall.engines.cost import Costs
from recall.engines.kept import Kept
from recall.engines.local import LocalEngine
from recall.engines.spark import SparkEngine
from recall.engines.subset import NotServed, served
from recall.engines.template import Ask, Own, Shares, Template, as_of
from recall.request import Asked, Piece, whole

Choice = Literal["auto", "spark", "local"]


class Engines:
    """The engines of one worker. `local` None: the workspace says that Spark reads all. `kept` and `costs`: shared by
    workers; with `local` chosen, it reads whatever it serves."""

    def __init__(
        self,
        spark: SparkEngine,
        local: LocalEngine | None,
        kept: Kept,
        costs: Costs | None = None,
        choice: Choice = "auto",
        derived: Derived | None = None,
    ) -> None:
        """`derived`: what is archived of derived streams, for readers that both engines share."""
        self._derived = derived
        self.spark = spark
        self._local = local
        self._kept = kept
        self._costs = costs if costs is not None else Costs()
        self._choice = choice

    @property
    def here(self) -> bool:
        """Whether what is sure to be the same may be computed in this process."""
        return self._local is not None

    def cancel(self) -> None:
        """End what these engines are asked now; may be called by another thread."""
        self.spark.cancel()
        if self._local is not None:
            self._local.cancel()

    @contextmanager
    def looking(self, asks: Sequence[Ask]) -> Iterator[dict[str, int]]:
        """See what was archived since, and no more as long as something is asked of it: how many appends that is of
        each stream that the questions read. With the pieces, this tells the rows that their answers come from
        (`archiver.asof`)."""
        try:
            yield self.spark.look([(ask.template, *whole(piece for _, piece in ask.shares)) for ask in asks])
        finally:
            self.spark.look_away()

    def stream(self, template: Template) -> str | None:
        """The stream of a question that may be read together with others about it; None: it is asked by itself."""
        if self._local is None or not self._local.serves(template) or self._costs.alone(template.asked):
            return None
        return None if template.names_own else next(iter(template.partial.used.streams), None)

    def partial(self, template: Template, shares: Shares, own: Own) -> dict[str, pa.Table]:
        """The partial answer of each event from its piece of history, by eid; an event without rows has none. It is of
        the archive as it is looked at.

        Events that ask the same of the same piece are answered once, also those that ask later.
        """
        return self.partials([Ask(template, shares, own)])[0]

    def partials(self, asks: Sequence[Ask]) -> list[dict[str, pa.Table]]:
        """See `partial`: of questions of different texts. Those about one stream that this process answers are read in
        one scan."""
        wanted = [self._wanted(ask) for ask in asks]
        left = [one for one in wanted if one.ask.shares]
        # Each is kept as it comes: where a later one fails, those before it are not read again.
        for one, more in zip(left, self._read([one.ask for one in left]), strict=True):
            self._learn(one, more)
        return [_told(ask, one) for ask, one in zip(asks, wanted, strict=True)]

    def answer(self, template: Template, held: Held, own: Own) -> dict[str, Rows]:
        """What each event's merged partial answers say, as rows in their order."""
        merges: list[Merge] = [] if self._local is None else [self._local.merge]
        merges.append(lambda asking, events, values: self.spark.merge(asking, events, values, own))
        return answer(template, held, merges)

    def _key(self, template: Template, parameters: Sequence[str], asked: Asked, piece: Piece) -> Hashable:
        _, low, high = piece
        values = orjson.dumps([asked.attributes.get(name) for name in parameters])
        return template.asked, values, low, high, self.spark.files(template, low, high)

    def _wanted(self, ask: Ask) -> "_Wanted":
        """What of a question is not known yet: one event for all that ask the same."""
        parameters = ask.template.parameters
        if parameters is None:
            return _Wanted(ask, {asked.eid: asked.eid for asked, _ in ask.shares}, {})
        keys = {asked.eid: self._key(ask.template, parameters, asked, piece) for asked, piece in ask.shares}
        found = self._kept.get(set(keys.values()))
        left = {keys[asked.eid]: (asked, piece) for asked, piece in ask.shares if keys[asked.eid] not in found}
        return _Wanted(replace(ask, shares=list(left.values())), keys, found)

    def _learn(self, one: "_Wanted", more: Mapping[str, pa.Table]) -> None:
        """Take in what was read, and keep it for those who ask later."""
        for asked, _ in one.ask.shares:
            key = one.keys[asked.eid]
            one.found[key] = more.get(str(asked.eid))
            if one.ask.template.parameters is not None:
                self._kept.put(key, one.found[key])

    def _read(self, asks: Sequence[Ask]) -> Iterator[dict[str, pa.Table]]:
        """What questions find: together where several are about one stream, which this process answers sooner."""
        found = self._together(asks) if len(asks) > 1 else {}
        for number, ask in enumerate(asks):
            yield found[number] if number in found else self._alone(ask)

    def _together(self, asks: Sequence[Ask]) -> dict[int, dict[str, pa.Table]]:
        """By their places, what those questions find that are read with others."""
        found: dict[int, dict[str, pa.Table]] = {}
        here: dict[str, dict[int, float]] = {}
        for number, ask in enumerate(asks):
            stream = self.stream(ask.template)
            if self._local is not None and stream is not None:
                size = self._local.megabytes(ask.template, ask.shares)
                if self._sooner_here(ask, size):
                    here.setdefault(stream, {})[number] = size
        for sizes in here.values():
            if len(sizes) > 1:
                with suppress(NotServed):
                    answers = self._here([asks[number] for number in sizes], list(sizes.values()))
                    found |= zip(sizes, answers, strict=True)
        return found

    def _alone(self, ask: Ask) -> dict[str, pa.Table]:
        if self._derived is not None:
            ask = replace(ask, template=self._derived.instead(ask.template, *whole(piece for _, piece in ask.shares)))
        if self._local is None or not self._local.serves(ask.template):
            return self.spark.partial(ask.template, ask.shares, ask.own)
        size = self._local.megabytes(ask.template, ask.shares)
        if self._sooner_here(ask, size):
            try:
                return self._here([ask], [size])[0]
            except NotServed:
                self._costs.set_apart(ask.template.asked)
        began, started = time.monotonic(), self.spark.started
        found = self.spark.partial(ask.template, ask.shares, ask.own)
        if started:
            self._costs.of(ask.template.asked, "spark").learn(size, time.monotonic() - began)
        return found

    def _sooner_here(self, ask: Ask, size: float) -> bool:
        """Whether this process is to answer what both engines can; `size` in megabytes."""
        return self._choice == "local" or (self._costs.cheaper(ask.template.asked, size, self.spark.started) == "local")

    def _here(self, asks: Sequence[Ask], sizes: Sequence[float]) -> list[dict[str, pa.Table]]:
        assert self._local is not None
        began = time.monotonic()
        found = self._local.together(asks)
        each = (time.monotonic() - began) / len(asks)
        for ask, size in zip(asks, sizes, strict=True):
            self._costs.of(ask.template.asked, "local").learn(size, each)
        return found


@dataclass(frozen=True)
class _Wanted:
    """What is left of a question to be read; by eid, what tells its events' answers apart; and those that are known."""

    ask: Ask
    keys: Mapping[UUID, Hashable]
    found: dict[Hashable, pa.Table | None]


def _told(ask: Ask, known: _Wanted) -> dict[str, pa.Table]:
    """The answers to each event of a question."""
    answers = {asked.eid: known.found.get(known.keys[asked.eid]) for asked, _ in ask.shares}
    return {str(eid): as_of(str(eid), table) for eid, table in answers.items() if table is not None}


@dataclass(frozen=True)
class Why:
    """Who reads history for a question, and why: `either` of both, whoever is measured to be sooner."""

    engine: Literal["either", "local", "spark"]
    reason: str


def why(template: Template, columns: Mapping[str, Mapping[str, str]], choice: Choice) -> Why:
    """Who is to read; `columns`: of all streams, with their types; `choice`: what the workspace says."""
    if choice == "spark":
        return Why("spark", "recall.engine of the workspace is spark")
    streams = template.partial.used.streams
    try:
        served(template, columns[next(iter(streams))] if streams else {})
    except NotServed as reason:
        return Why("spark", str(reason))
    if choice == "local":
        return Why("local", "recall.engine of the workspace is local")
    return Why("either", "DuckDB in the recall process and Spark answer alike: whichever has been sooner, by file size")
