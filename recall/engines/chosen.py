"""Which engine reads a piece: this process where it is known to answer as Spark does, else Spark."""

import time
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Literal

import orjson
import pyarrow as pa

from recall.derived import Derived
from recall.engines.answers import Held, Merge, Rows, answer
from recall.engines.cost import Costs
from recall.engines.kept import Kept
from recall.engines.local import LocalEngine
from recall.engines.spark import SparkEngine
from recall.engines.subset import NotServed, served
from recall.engines.template import Own, Template, as_of
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
    def looking(self, template: Template, shares: Sequence[tuple[Asked, Piece]]) -> Iterator[dict[str, int]]:
        """See what was archived since, and no more as long as something is asked of it: how many appends that is of
        each stream that the question reads. With the pieces, this tells the rows that its answer comes from
        (`archiver.asof`)."""
        try:
            yield self.spark.look(template, *whole(piece for _, piece in shares))
        finally:
            self.spark.look_away()

    def partial(self, template: Template, shares: Sequence[tuple[Asked, Piece]], own: Own) -> dict[str, pa.Table]:
        """The partial answer of each event from its piece of history, by eid; an event without rows has none. It is of
        the archive as it is looked at.

        Events that ask the same of the same piece are answered once, also those that ask later.
        """
        if template.parameters is None:
            return self._read(template, shares, own)
        keys = {asked.eid: self._key(template, template.parameters, asked, piece) for asked, piece in shares}
        found = self._kept.get(set(keys.values()))
        unknown = {keys[asked.eid]: (asked, piece) for asked, piece in shares if keys[asked.eid] not in found}
        if unknown:
            more = self._read(template, list(unknown.values()), own)
            for key, (asked, _) in unknown.items():
                found[key] = more.get(str(asked.eid))
                self._kept.put(key, found[key])
        answers = {str(asked.eid): found[keys[asked.eid]] for asked, _ in shares}
        return {eid: as_of(eid, table) for eid, table in answers.items() if table is not None}

    def answer(self, template: Template, held: Held, own: Own) -> dict[str, Rows]:
        """What each event's merged partial answers say, as rows in their order."""
        merges: list[Merge] = [] if self._local is None else [self._local.merge]
        merges.append(lambda asking, events, values: self.spark.merge(asking, events, values, own))
        return answer(template, held, merges)

    def _key(self, template: Template, parameters: Sequence[str], asked: Asked, piece: Piece) -> Hashable:
        _, low, high = piece
        values = orjson.dumps([asked.attributes.get(name) for name in parameters])
        return template.asked, values, low, high, self.spark.files(template, low, high)

    def _read(self, template: Template, shares: Sequence[tuple[Asked, Piece]], own: Own) -> dict[str, pa.Table]:
        if self._derived is not None and shares:
            template = self._derived.instead(template, *whole(piece for _, piece in shares))
        if self._local is None or not self._local.serves(template):
            return self.spark.partial(template, shares, own)
        size, started = self._local.megabytes(template, shares), self.spark.started
        began = time.monotonic()
        if self._choice == "local" or self._costs.cheaper(template.asked, size, started) == "local":
            with suppress(NotServed):
                found = self._local.partial(template, shares, own)
                self._costs.of(template.asked, "local").learn(size, time.monotonic() - began)
                return found
        found = self.spark.partial(template, shares, own)
        if started:
            self._costs.of(template.asked, "spark").learn(size, time.monotonic() - began)
        return found


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
