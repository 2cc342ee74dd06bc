"""Offsets in the checkpoint of a streaming query."""

from pathlib import Path

import pytest

from moirae.live.sources.queries.checkpoint import read_offsets


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
