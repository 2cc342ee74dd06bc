"""Which engine reads a piece: this process where it is known to answer as Spark does, else Spark."""

from collections.abc import Sequence
from typing import Literal

import pyarrow as pa

from recall.engines.local import LocalEngine, NotServed
from recall.engines.spark import SparkEngine
from recall.engines.template import Own, Template
from recall.request import Asked, Piece

Choice = Literal["auto", "spark", "local"]


class Engines:
    """The engines of one worker. `choice` as the workspace says: `spark` never asks the local one."""

    def __init__(self, spark: SparkEngine, local: LocalEngine | None) -> None:
        self.spark = spark
        self._local = local

    def cancel(self) -> None:
        """End what these engines are asked now; may be called by another thread."""
        self.spark.cancel()
        if self._local is not None:
            self._local.cancel()

    def partial(self, template: Template, shares: Sequence[tuple[Asked, Piece]], own: Own) -> dict[str, pa.Table]:
        """The partial answer of each event from its piece of history, by eid; an event without rows has none."""
        if self._local is not None:
            try:
                return self._local.partial(template, shares, own)
            except NotServed:
                pass
        return self.spark.partial(template, shares, own)
