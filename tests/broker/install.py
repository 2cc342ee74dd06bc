"""`python -m tests.broker.install`: download the jars of the Kafka broker for tests."""

import sys
from pathlib import Path

from archiver.errors import ArchiverError
from archiver.spark.install import fetch_jars, read_lock, verify_jars
from tests.broker import JARS

_COORDINATES = "org.apache.kafka:kafka_2.13:4.1.2"


def main() -> int:
    """Download the jars if they are missing. Without them the tests that need Kafka are skipped."""
    lock = read_lock((Path(__file__).parent / "jars.lock").read_text())
    try:
        verify_jars(JARS, lock)
    except ArchiverError:
        print(
            "moirae: downloading a Kafka broker for the tests (43 MB) …",
            file=sys.stderr,
            flush=True,
        )
        try:
            fetch_jars([(_COORDINATES, "")], lock, JARS)
        except ArchiverError as error:
            print(f"moirae: no Kafka broker for the tests: {error}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
