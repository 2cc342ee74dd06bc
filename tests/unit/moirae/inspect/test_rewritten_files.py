from moirae.inspect.rewritten_files import describe_rewritten_files


def test_streams_whose_files_change_are_named() -> None:
    lines = list(describe_rewritten_files({"a": {"rewritten": 0}, "b": {"rewritten": 2}}))
    assert lines == [
        "stream b: the source has rewritten 2 files after they were read; their archived rows are "
        "duplicates. Set `tail: true` where files only grow"
    ]
