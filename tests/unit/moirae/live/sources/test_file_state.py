"""When a file is complete."""

from pathlib import Path

from moirae.live.sources.file_state import (
    FileState,
    StabilityCheck,
    read_file_state,
    read_moved_state,
)

STATE = FileState(inode=1, size=2, modified=3, changed=4)


def test_state_is_stable_once_it_was_the_same_for_long_enough() -> None:
    now = [50.0]
    check = StabilityCheck(2.0, lambda: now[0])
    assert not check.is_stable(STATE)
    now[0] += 1.9
    assert not check.is_stable(STATE)
    now[0] += 0.1
    assert check.is_stable(STATE)
    assert not check.is_stable(STATE._replace(changed=5))
    now[0] += 2.0
    assert not check.is_stable(None), "a missing file is a state too"
    now[0] += 2.0
    assert check.is_stable(None)


def test_missing_file_has_no_state(tmp_path: Path) -> None:
    assert read_file_state(tmp_path / "none") is None
    (tmp_path / "file").touch()
    assert read_file_state(tmp_path / "file" / "none") is None


def test_moved_link_says_nothing_about_what_it_leads_to(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "link").symlink_to("file")
    state = read_file_state(tmp_path / "file")
    assert state is not None and state.size == 1
    assert read_file_state(tmp_path / "link") == read_moved_state(tmp_path / "file") == state
    assert read_moved_state(tmp_path / "link") is None
    assert read_moved_state(tmp_path) is None


def test_fingerprint_names_all_that_may_differ() -> None:
    assert STATE.fingerprint == "1:2:3:4"
