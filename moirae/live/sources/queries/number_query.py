"""A streaming query over numbers that this process publishes, by the source of `org.moirae.numbers`.

While no number is published the query waits, which costs nothing. Numbers grow over all runs of the
process: the checkpoint tells where the last one ended.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from archiver.periodic import Timer
from archiver.spark import NUMBER_SOURCE
from moirae.errors import MoiraeError, first_line
from moirae.live.sources.queries.checkpoint import last_batch, read_offsets, set_aside

_MAX_NUMBER = 1 << 62
_LOOK_INTERVAL = 1.0  # seconds between looks whether the query has ended: each is a round trip


class NumberQuery:
    """Calls `handle_number` in a thread of Spark after a number was published, at least once.

    It is also called without a new number: for the last one of an earlier process. A checkpoint
    that cannot be used is set aside.
    """

    def __init__(
        self, spark: SparkSession, name: str, checkpoint: Path, handle_number: Callable[[], None]
    ) -> None:
        self._spark = spark
        self._name = name
        self._checkpoint = checkpoint
        self._handle_number = handle_number
        self._last_number = 0
        self._numbers_name = ""
        # Each name on the way to a class of the JVM is a round trip.
        jvm: Any = spark._jvm
        self._numbers: Any = jvm.org.moirae.numbers.Numbers
        self._query: StreamingQuery | None = None
        self._look_timer = Timer(_LOOK_INTERVAL)

    def start(self) -> None:
        """Start the query. Raises `MoiraeError`."""
        try:
            self._start()
        except (OSError, ValueError, PySparkException, Py4JError) as error:
            self._set_checkpoint_aside(first_line(error))
            self._start()

    def _start(self) -> None:
        self._checkpoint.parent.mkdir(parents=True, exist_ok=True)
        self._last_number = max(self._last_number, _read_last_number(self._checkpoint))
        # Numbers of an earlier query in this process must not start a batch of this one.
        self._numbers_name = f"{self._name} {uuid4()}"
        numbers = (
            self._spark.readStream.format(NUMBER_SOURCE).option("name", self._numbers_name).load()
        )
        self._query = (
            numbers.writeStream.queryName(self._name)
            .foreachBatch(lambda _frame, _batch: self._handle_number())
            .option("checkpointLocation", str(self._checkpoint))
            .start()
        )

    def publish(self) -> None:
        """Publish the next number."""
        self._last_number += 1
        self._numbers.publish(self._numbers_name, self._last_number)

    def restart(self, reason: str) -> None:
        """Start the query anew without its checkpoint, and publish the last number again.

        Raises `MoiraeError`.
        """
        self.stop()
        self._set_checkpoint_aside(reason)
        self.start()
        self.publish()

    def stop(self) -> None:
        """Stop the query."""
        if self._query is not None:
            self._query.stop()
            self._numbers.remove(self._numbers_name)
            self._query = None

    def find_failure(self) -> str | None:
        """Why the query has ended; None: it has not, when it was last looked at."""
        if self._query is None or not self._look_timer.is_due():
            return None
        self._look_timer.restart()
        if self._query.isActive:
            return None
        error = self._query.exception()
        return "the query has ended" if error is None else first_line(error)

    def _set_checkpoint_aside(self, reason: str) -> None:
        try:
            set_aside(self._checkpoint, reason)
        except OSError as error:
            raise MoiraeError(
                f"{self._checkpoint}: cannot set the checkpoint aside: {error.strerror}; "
                f"it cannot be used: {reason}"
            ) from error


def _read_last_number(checkpoint: Path) -> int:
    """The last number in a checkpoint; 0 without one.

    Raises `OSError` or `ValueError` if it is damaged, or has other sources.
    """
    batch = last_batch(checkpoint)
    if batch is None:
        return 0
    (offset,) = read_offsets(checkpoint, batch)
    number = int(offset)
    if not 0 <= number < _MAX_NUMBER:
        raise ValueError(f"invalid offset: {number}")
    return number
