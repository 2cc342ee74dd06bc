"""Offsets in the checkpoint of a streaming query."""

from pathlib import Path

import pytest

from moirae.live.sources.queries.checkpoint import last_batch, read_offsets, set_aside


def test_offsets_of_each_source_are_read(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_offsets(tmp_path, 3)
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / "3").write_text('v1\n{"conf":{}}\n{"logOffset":2}\n-')
    assert read_offsets(tmp_path, 3) == ['{"logOffset":2}', "-"]


@pytest.mark.parametrize("content", ["", "v1", "v2\n{}\n-"])
def test_other_formats_are_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / "3").write_text(content)
    with pytest.raises(ValueError, match=r"version|values"):
        read_offsets(tmp_path, 3)


def test_last_batch_of_a_log_is_the_highest_number(tmp_path: Path) -> None:
    assert last_batch(tmp_path) is None
    (tmp_path / "offsets").mkdir()
    for name in ("9", "10", ".11.crc", "12.tmp"):
        (tmp_path / "offsets" / name).touch()
    assert last_batch(tmp_path) == 10


def test_checkpoints_that_are_set_aside_stay_in_small_number(tmp_path: Path) -> None:
    checkpoint = tmp_path / "live"
    set_aside(checkpoint, "there is none")
    for number in range(5):
        checkpoint.mkdir()
        (checkpoint / str(number)).touch()
        set_aside(checkpoint, "damaged")
    assert not checkpoint.exists()
    assert sorted(path.name for path in tmp_path.glob("live.set-aside-*/*")) == ["2", "3", "4"]
