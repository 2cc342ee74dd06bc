from moirae.inspect.rewritten_files import describe_rewritten_files


def test_streams_whose_files_change_are_named() -> None:
    lines = list(
        describe_rewritten_files(
            {
                "a": {"rewritten": 0, "renamed": 0},
                "b": {"rewritten": 2, "renamed": 0},
                "c": {"rewritten": 0, "renamed": 1},
            }
        )
    )
    assert lines == [
        "stream b: the source has rewritten 2 files after they were read; their archived rows are "
        "duplicates. Where files only grow, set `tail: true` and `after: keep`",
        "stream c: the source has renamed 1 file after they were read; their archived rows are "
        "duplicates. Where log files rotate, set `tail: true`",
    ]
