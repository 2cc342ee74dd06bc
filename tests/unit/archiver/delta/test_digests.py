"""Digests of data files in commits and checkpoints."""

import io
from hashlib import sha256
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from archiver.delta.digests import compute_digest, parse_digests
from archiver.delta.files import DataFile
from archiver.delta.protocol import add_action, encode_actions
from archiver.delta.row_ids import RowIds


def _checkpoint(adds: pa.Array) -> bytes:
    content = io.BytesIO()
    pq.write_table(pa.table({"add": adds}), content)
    return content.getvalue()


def test_digest_of_a_file_is_its_sha256(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x" * 3_000_000)
    assert compute_digest(tmp_path / "file") == sha256(b"x" * 3_000_000).hexdigest()


def test_digests_are_read_from_commits_and_checkpoints() -> None:
    ids = RowIds(5, 1, 2)
    known = DataFile("chunk=0/a-1-x.parquet", 0, 5, 100, 1_000, 2_000, digest="d1", ids=ids.tag)
    unknown = DataFile("chunk=0/a-2-x.parquet", 0, 5, 100, 1_000, 2_000)
    actions = [add_action(file, "ts", 7, True) for file in (known, unknown)]
    tags = pa.map_(pa.string(), pa.string())
    type_ = pa.struct([("path", pa.string()), ("tags", tags)])
    adds = pa.array([{"path": "b%20c", "tags": [("moirae.sha256", "d2"), ("x", "y")]}, None], type_)
    log = {"1.json": encode_actions(actions), "0.checkpoint.parquet": _checkpoint(adds)}
    digests = parse_digests(log)
    assert digests.files == {known.path: "d1", "b c": "d2"}
    assert digests.rows == {known.path: ids}


def test_checkpoints_of_other_programs_may_have_no_tags() -> None:
    adds = pa.array([{"path": "p"}], pa.struct([("path", pa.string())]))
    digests = parse_digests({"0.checkpoint.parquet": _checkpoint(adds)})
    assert not digests.files
    assert not digests.rows
