"""Relations in files: what is no whole file changes nothing."""

from pathlib import Path

import pytest

from moirae.config.streams import Relation
from moirae.errors import ProblemsError
from moirae.live.sources.relation_file import FileRelationReader


def _rows(path: Path) -> FileRelationReader:
    given = {
        "columns": {"host": "string", "site": "string"},
        "key": ["host"],
        "source": {"file": str(path)},
    }
    relation = Relation.model_validate(given)
    return FileRelationReader("hosts", relation, relation.source)  # type: ignore[arg-type]


def test_rows_are_read_again_when_the_file_has_changed(tmp_path: Path) -> None:
    path = tmp_path / "hosts.csv"
    path.write_text("host,site\nh1,north\n")
    rows = _rows(path)
    assert (
        rows.has_changed()
        and rows.read_rows() == [{"host": "h1", "site": "north"}]
        and not rows.has_changed()
    )
    path.write_text("host,site\n")
    assert rows.has_changed() and rows.read_rows() == []


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
def test_a_file_that_is_not_whole_is_refused_with_its_line(
    tmp_path: Path, text: str, message: str
) -> None:
    path = tmp_path / "hosts.csv"
    path.write_text(text)
    with pytest.raises(ProblemsError, match=f"hosts.csv:{message}"):
        _rows(path).read_rows()
