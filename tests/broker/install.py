"""`python -m tests.broker.install`: the jars of the broker that tests start, fetched once, by `make`."""

import sys
from pathlib import Path

from archiver.errors import ArchiverError
from archiver.spark.install import fetch_jars, read_lock, verify_jars
from tests.broker import JARS

_COORDINATES = "org.apache.kafka:kafka_2.13:4.1.2"


def main() -> int:
    """Fetch what is missing. Without a broker its tests are skipped, so that a failure is told and no more."""
    lock = read_lock((Path(__file__).parent / "jars.lock").read_text())
    try:
        verify_jars(JARS, lock)
    except ArchiverError:
        print(
            "moirae: fetching a Kafka broker for the tests (43 MB) …", file=sys.stderr, flush=True
        )
        try:
            fetch_jars([(_COORDINATES, "")], lock, JARS)
        except ArchiverError as error:
            print(f"no Kafka broker for the tests: {error}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
