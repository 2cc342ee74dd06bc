from recall.ledger.stream_ends import add_stream_ends, find_streams_read
from recall.requests import Coverage, SqlQuestion


def question(sql: str, asked_range: int | None = None) -> SqlQuestion:
    return SqlQuestion(
        range=asked_range,
        every=1.0,
        order="newest",
        sql=sql,
        streams={"cpu": "ts", "net": "ts"},
        relations=(),
        derived={"load": "SELECT ts FROM cpu"},
        attributes={},
        own={},
        columns={},
    )


def coverage(asked_from: int | None) -> Coverage:
    return Coverage(
        asked_from, asked_from, 100, read=1, left=0, failed=0, final=True, partial=False
    )


def test_streams_of_derived_streams_are_read() -> None:
    assert find_streams_read(question("SELECT count(*) FROM load")) == {"cpu"}
    assert find_streams_read(question("SELECT count(*) FROM net")) == {"net"}


def test_coverage_says_which_stream_ended_where() -> None:
    reads_cpu = question("SELECT count(*) FROM load")
    ended = add_stream_ends(coverage(None), reads_cpu, {"cpu": 50, "net": 60})
    assert ended.ended == {"cpu": 50} and not ended.partial
    assert add_stream_ends(coverage(50), reads_cpu, {"cpu": 50}).ended == {}


def test_answer_of_a_range_is_partial_if_a_stream_ended_in_it() -> None:
    asked = question("SELECT count(*) FROM cpu", asked_range=80)
    assert add_stream_ends(coverage(20), asked, {"cpu": 50}).partial
