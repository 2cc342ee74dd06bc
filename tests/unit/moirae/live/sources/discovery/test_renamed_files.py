"""Files that were renamed after they were read."""

import shutil
from collections.abc import Collection
from pathlib import Path

from structlog.testing import capture_logs

from moirae.live.sources.discovery.renamed_files import RenamedFiles
from moirae.live.sources.files import DiscoveredFile, stat_file


def stat(path: Path) -> DiscoveredFile:
    file = stat_file("s", path)
    assert file is not None
    return file


def test_a_file_has_the_place_where_it_was_first_read(tmp_path: Path) -> None:
    places: dict[str, str] = {}

    def list_places(stamps: Collection[str]) -> dict[str, str]:
        return {stamp: places[stamp] for stamp in stamps if stamp in places}

    renamed_files = RenamedFiles("s", tmp_path, list_places)
    assert renamed_files.find_places([]) == []
    log = tmp_path / "a.log"
    log.write_text("x\n")
    with capture_logs() as logs:
        (file,) = renamed_files.find_places([stat(log)])
        assert file.place == "a.log"
        places[file.stamp] = "a.log"
        assert renamed_files.find_places([stat(log)]) == [file]
    assert logs == []
    log.rename(tmp_path / "a.log.1")
    shutil.copy2(tmp_path / "a.log.1", log)
    with capture_logs() as logs:
        found = renamed_files.find_places([stat(tmp_path / "a.log.1"), stat(log)])
        renamed_files.find_places([stat(tmp_path / "a.log.1")])
    assert [file.place for file in found] == ["a.log", "a.log"]
    assert [(entry["name"], entry["read_as"]) for entry in logs] == [("a.log.1", "a.log")]
