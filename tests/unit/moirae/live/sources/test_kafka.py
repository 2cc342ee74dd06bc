"""Records of topics as source units, and estimates before they are read."""

import pyarrow as pa
import pytest

from archiver.ingest import PartitionProgress
from archiver.ingest.watermarks import ReadProgress
from moirae.live.sources.kafka import MAX_BATCH_RECORDS, estimate_records, make_units
from tests.ingest_scenario import TOPIC

PROGRESS = {"0": PartitionProgress(40, ReadProgress())}


@pytest.mark.parametrize(
    ("end_offsets", "records"),
    [
        ('{"t":{"0":50,"1":5}}', 15),
        ('{"t":{"0":30}}', 0),
        ('{"t":{"1":900000}}', MAX_BATCH_RECORDS),
        ("", 0),
    ],
)
def test_records_are_estimated_from_the_offsets_after_those_archived(
    end_offsets: str, records: int
) -> None:
    assert estimate_records(end_offsets, PROGRESS) == records


def test_units_have_the_records_that_are_not_archived_in_order_of_their_offsets() -> None:
    records = pa.table(
        {
            "partition": pa.array([1, 0, 0, 0], pa.int32()),
            "offset": pa.array([7, 41, 39, 40], pa.int64()),
            "value": pa.array([b"a", b"b", b"c", None], pa.binary()),
        }
    )
    units = make_units("a", TOPIC, records, PROGRESS)
    assert [(unit.name, unit.partition) for unit in units] == [("t/0/40-41", "0"), ("t/1/7-7", "1")]
    assert [list(unit.read()) for unit in units] == [[b"", b"b"], [b"a"]]
