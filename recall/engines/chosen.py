"""Which engine reads a piece: this process where it is known to answer as Spark does, else Spark."""

from collections.abc import Hashable, Sequence
from typing import Literal

import orjson
import pyarrow as pa

from recall.engines.answers import Held, Rows
from recall.engines.kept import Kept
from recall.engines.local import LocalEngine, NotServed
from recall.engines.spark import SparkEngine
from recall.engines.template import Own, Template, as_of
from recall.request import Asked, Piece

Choice = Literal["auto", "spark", "local"]


class Engines:
    """The engines of one worker. `local` None: the workspace says that Spark reads all. `kept`: shared by workers."""

    def __init__(self, spark: SparkEngine, local: LocalEngine | None, kept: Kept) -> None:
        self.spark = spark
        self._local = local
        self._kept = kept

    def cancel(self) -> None:
        """End what these engines are asked now; may be called by another thread."""
        self.spark.cancel()
        if self._local is not None:
            self._local.cancel()

    def partial(self, template: Template, shares: Sequence[tuple[Asked, Piece]], own: Own) -> dict[str, pa.Table]:
        """The partial answer of each event from its piece of history, by eid; an event without rows has none.

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
        if self._local is not None:
            try:
                return self._local.answer(template, held)
            except NotServed:
                pass
        return self.spark.answer(template, held, own)

    def _key(self, template: Template, parameters: Sequence[str], asked: Asked, piece: Piece) -> Hashable:
        _, low, high = piece
        values = orjson.dumps([asked.attributes.get(name) for name in parameters])
        return template.asked, values, low, high, self.spark.files(template, low, high)

    def _read(self, template: Template, shares: Sequence[tuple[Asked, Piece]], own: Own) -> dict[str, pa.Table]:
        if self._local is not None:
            try:
                return self._local.partial(template, shares, own)
            except NotServed:
                pass
        return self.spark.partial(template, shares, own)
