"""Actions of commits: what the history shows, and whose rows files hold."""

import orjson
import pytest

from archiver.delta.files import DataFile
from archiver.delta.protocol.actions import (
    NO_CHUNK,
    CommitSummary,
    add_action,
    commit_info_action,
    encode_actions,
    parse_commit,
    remove_action,
)

FILE = DataFile("chunk=3/a-1-x.parquet", 3, rows=5, bytes=100, oldest=1_000, newest=2_000)


def other_add(path: str, **values: object) -> dict[str, object]:
    chunk = values.pop("chunk", "0")
    return {"add": {"path": path, "partitionValues": {"chunk": chunk}, "size": 1, **values}}


def test_own_commit_is_parsed_as_it_was_built() -> None:
    info = commit_info_action(CommitSummary("WRITE", user_metadata={"append": 1}), 7, add=[FILE])
    commit = parse_commit(
        encode_actions([info, add_action(FILE, "ts", 7, True)]), "ts", application_id=None
    )
    (found,) = commit.added
    assert found.bounds is not None and found.with_bounds(*found.bounds) == FILE
    assert commit.timestamp is None
    assert info["commitInfo"]["isBlindAppend"] is True
    assert info["commitInfo"]["operationMetrics"]["numOutputRows"] == "5"


def test_time_of_a_version_is_in_its_commit_where_the_table_requires_it() -> None:
    info = commit_info_action(CommitSummary("WRITE"), 7, in_commit_timestamp=True)
    assert parse_commit(encode_actions([info]), "ts", None).timestamp == 7


@pytest.mark.parametrize(
    ("action", "is_foreign"),
    [
        (other_add("chunk=0/part-1.parquet"), True),
        (other_add("chunk=0/part-1.parquet", dataChange=True), True),
        (other_add("chunk=0/part-1.parquet", dataChange=False), False),
        (other_add("chunk=0/a-1.parquet"), False),
        (other_add("chunk=0/f-1.parquet", dataChange=False), True),
    ],
)
def test_appended_files_of_other_programs_are_foreign(
    action: dict[str, object], is_foreign: bool
) -> None:
    (found,) = parse_commit(encode_actions([action]), "ts", None).added
    assert found.is_foreign(lambda path: pytest.fail(path)) is is_foreign and found.bounds is None


def test_files_that_replace_archived_ones_are_not_foreign() -> None:
    content = encode_actions([remove_action(FILE, 9, True), other_add("chunk=3/part-1.parquet")])
    commit = parse_commit(content, "ts", None)
    assert not commit.added[0].is_foreign({FILE.path: False}.__getitem__)
    assert commit.added[0].is_foreign({FILE.path: True}.__getitem__), "if these are"
    assert commit.removed[FILE.path].removed_at == 9


def test_files_replace_those_of_their_chunk() -> None:
    other = DataFile("chunk=0/part-0.parquet", 0, rows=5, bytes=100, oldest=1_000, newest=2_000)
    removed = [remove_action(FILE, 9, True), remove_action(other, 9, True)]
    content = encode_actions([*removed, other_add("chunk=0/part-1.parquet")])
    (found,) = parse_commit(content, "ts", None).added
    assert found.replaced_paths == [other.path]


def test_rows_without_a_chunk_have_none_of_the_catalog() -> None:
    path = "chunk=__HIVE_DEFAULT_PARTITION__/part-1.parquet"
    (found,) = parse_commit(encode_actions([other_add(path, chunk=None)]), "ts", None).added
    assert found.chunk == NO_CHUNK


def test_statistics_without_times_are_no_bounds() -> None:
    stats = orjson.dumps({"numRecords": 3}).decode()
    content = encode_actions([other_add("chunk=0/part-1.parquet", stats=stats)])
    assert parse_commit(content, "ts", None).added[0].bounds is None
