"""What `streams infer` proposes reads the files of public data sets, of each its first records."""

import gzip
import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest

from moirae.config import Relation, Stream
from moirae.inspect import propose_stream, read_sample

DATA = Path(os.environ.get("MOIRAE_DATA", Path(__file__).parents[3] / "shared" / "data"))
_SUFFIXES = (".csv", ".json", ".jsonl", ".gz")
_LINES = 1_000

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not DATA.is_dir(), reason="the data sets are not here"),
]


def _files() -> Iterator[Path]:
    for path in sorted(DATA.rglob("*")):
        # Counts of the rows of the others are one object without a time.
        if path.suffix in _SUFFIXES and path.name not in ("counts.json", "metrics.json"):
            yield path


@pytest.mark.parametrize("path", list(_files()), ids=lambda path: str(path.relative_to(DATA)))
def test_a_proposed_declaration_reads_its_file(path: Path, tmp_path: Path) -> None:
    sampled = tmp_path / path.name.removesuffix(".gz")
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        sampled.write_bytes(b"".join(islice(file, _LINES)))
    proposed = propose_stream([sampled])
    if proposed.is_relation:
        Relation.model_validate(proposed.declaration)
        return
    declared = Stream.model_validate(proposed.declaration)
    sample = read_sample("s", declared, sampled, declared.source.record_format, 1)
    # The last record may be cut in its middle.
    assert sample.row_count > 0 and sample.refused_count <= 1, (proposed, sample.refused)
