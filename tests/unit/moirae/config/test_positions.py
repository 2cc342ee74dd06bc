"""Positions of values and of keys that are missing."""

from pathlib import Path

from moirae.config.positions import locate
from tests.unit.moirae.config.workspace_files import STREAM, load


def test_position_is_that_of_the_value_or_of_the_nearest_key(tmp_path: Path) -> None:
    settings = load(tmp_path, STREAM)
    for path, position in [
        (("streams", "cpu", "columns", "host"), (3, 36)),
        (("streams", "cpu", "id"), (2, 3)),
        (("streams", "cpu", "columns", "host", "was"), (3, 30)),
    ]:
        problem = locate(settings, path, "is wrong")
        assert (problem.line, problem.column) == position
        assert problem.message == f"{'.'.join(path)}: is wrong"
    (tmp_path / "moirae.yaml").write_text("")
    assert locate(settings, ("streams",), "is wrong").line is None
