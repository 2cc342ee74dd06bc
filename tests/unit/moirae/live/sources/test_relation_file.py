"""Relations read from files."""

from pathlib import Path

import pytest

from moirae.config.streams import Relation
from moirae.errors import ProblemsError
from moirae.live.sources.relation_file import FileRelationReader


def _make_reader(path: Path) -> FileRelationReader:
    declared = {
        "columns": {"host": "string", "site": "string"},
        "key": ["host"],
        "source": {"file": str(path)},
    }
    relation = Relation.model_validate(declared)
    return FileRelationReader("hosts", relation, relation.source)  # type: ignore[arg-type]


def test_changed_file_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "hosts.csv"
    path.write_text("host,site\nh1,north\n")
    reader = _make_reader(path)
    assert reader.has_changed()
    assert reader.read_rows() == [{"host": "h1", "site": "north"}]
    assert not reader.has_changed()
    path.write_text("host,site\n")
    assert reader.has_changed()
    assert reader.read_rows() == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "1: the file is empty"),
        ("\n \n", "1: the file is empty"),
        ("h1,north\n", "1: missing columns in the header: host, site"),
        ("\nhst,site\nh1,north\n", "2: missing columns in the header: host"),
        ("host,site\nh1\n", "2: "),
        ("host,site\nh1,north\n\nh2,north\nh1,south\n", "5: duplicate host, first in line 2"),
    ],
)
def test_invalid_file_is_refused_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "hosts.csv"
    path.write_text(text)
    with pytest.raises(ProblemsError, match=f"hosts.csv:{message}"):
        _make_reader(path).read_rows()
