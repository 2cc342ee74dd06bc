"""Cached copies of files: leases, eviction, and partial files of processes that died."""

import errno
import os
import pickle
import shutil
import threading
import time
from pathlib import Path
from typing import Any
from unittest.mock import Mock, patch

import pytest

import archiver.storage.file_cache
from archiver.clock import seconds_since_boot
from archiver.storage.file_cache import _TIME_ORIGIN, FileCache, _lease_end
from archiver.task_environment import DRIVER_ENVIRONMENT

GRACE = 100.0  # seconds
NOW = 100_000.0  # seconds since boot


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Mock:
    """Seconds since boot."""
    clock = Mock(return_value=NOW)
    monkeypatch.setattr(archiver.storage.file_cache, "seconds_since_boot", clock)
    return clock


def add_file(cache: FileCache, name: str, size: int = 10, lease: bool = False) -> Path:
    path = cache.folder / "chunk=0" / name
    with cache.write_file(path, lease) as partial:
        partial.write_bytes(b"x" * size)
    return path


def test_least_recently_used_files_are_evicted_first(tmp_path: Path) -> None:
    cache = FileCache(tmp_path, 1000, GRACE)
    first, second, third = (add_file(cache, name) for name in "abc")
    for age, path in enumerate((second, third, first)):
        os.utime(path, (_TIME_ORIGIN + NOW - 1000 + age, 1))
    cache.evict(25)
    assert (first.exists(), second.exists(), third.exists()) == (True, False, True)
    cache.record_read(third)
    cache.evict(15)
    assert (first.exists(), third.exists()) == (False, True)
    cache.evict(0)
    assert not third.exists() and not third.parent.exists()


def test_lease_is_not_shortened_by_reads_or_by_another_copy(tmp_path: Path, clock: Mock) -> None:
    cache = FileCache(tmp_path, 1000, GRACE)
    leased = add_file(cache, "a", lease=True)
    assert cache.lease([leased]) and not cache.lease([leased, tmp_path / "none"])
    cache.record_read(leased)
    add_file(cache, "a")  # another process fetches the same file
    cache.evict(0)
    assert leased.exists()
    modified = leased.stat().st_mtime_ns
    clock.return_value = NOW + GRACE - 5
    cache.evict(0)
    assert leased.exists()
    clock.return_value = NOW + 2 * GRACE
    cache.evict(0)
    assert not leased.exists()
    assert add_file(cache, "a", lease=True).stat().st_mtime_ns != modified  # a different file


@pytest.mark.parametrize("step", [-7200.0, 7200.0])
def test_steps_of_the_system_clock_end_no_lease(
    step: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = FileCache(tmp_path, 1000, GRACE)
    path, now = add_file(cache, "a", lease=True), time.time()
    path.read_bytes()  # the system may update the access time
    monkeypatch.setattr(time, "time", lambda: now + step)
    unfinished = cache.write_file(tmp_path / "chunk=0" / "b")
    unfinished.__enter__().write_bytes(b"x")
    cache.evict(0)
    unfinished.__exit__(None, None, None)
    assert path.exists() and path.with_name("b").exists()


def test_leases_end_with_a_reboot(tmp_path: Path, clock: Mock) -> None:
    cache = FileCache(tmp_path, 1000, GRACE)
    path = add_file(cache, "a", lease=True)
    clock.return_value = 10.0
    recent = add_file(cache, "b")
    cache.evict(10)
    assert (path.exists(), recent.exists()) == (False, True)


def test_recent_lease_is_not_written_again_and_lasts_long_enough(
    tmp_path: Path, clock: Mock
) -> None:
    cache = FileCache(tmp_path, 1000, GRACE)
    path = add_file(cache, "a", lease=True)
    clock.return_value = NOW + GRACE / 8
    with patch.object(os, "utime") as utime:
        assert cache.lease([path])
    assert not utime.called and _lease_end(path.stat()) >= clock.return_value + GRACE
    clock.return_value = NOW + GRACE / 2
    assert cache.lease([path]) and _lease_end(path.stat()) >= clock.return_value + GRACE


def test_nearly_full_disk_refuses_readers_but_not_writers(tmp_path: Path, clock: Mock) -> None:
    """A file that does not fit beside leased ones is refused; failed evictions are not repeated."""
    cache = FileCache(tmp_path, 1600, GRACE)
    leased, unleased = add_file(cache, "a", 100, lease=True), add_file(cache, "b", 100)

    def disk_usage(_: Path) -> Mock:
        used = sum(path.stat().st_size for path in tmp_path.rglob("[a-z]") if path.is_file())
        return Mock(free=archiver.storage.file_cache._RESERVED_SPACE + 150 - used)

    with patch.object(shutil, "disk_usage", disk_usage):
        cache.ensure_space(50)
        assert leased.exists() and not unleased.exists()
        with patch.object(cache, "evict", wraps=cache.evict) as evict:
            for _ in range(9):
                with pytest.raises(OSError, match="No space") as refused:
                    cache.ensure_space(51)
                assert refused.value.errno == errno.ENOSPC
            written = [add_file(cache, name) for name in "cdefghij"]
            assert evict.call_count == 1 and all(path.exists() for path in written)
            clock.return_value += 60
            add_file(cache, "k")
            assert evict.call_count == 2
            assert leased.exists() and not any(path.exists() for path in written)


def test_failed_write_leaves_no_file_and_a_full_disk_evicts_all(tmp_path: Path) -> None:
    cache = FileCache(tmp_path, 1000, GRACE)
    old = add_file(cache, "old")
    unfinished = cache.write_file(tmp_path / "chunk=1" / "b")
    unfinished.__enter__().write_bytes(b"x")
    full = OSError(errno.ENOSPC, "full")
    assert not unfinished.__exit__(OSError, full, None)
    assert not old.exists()
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == [".lock"]


def test_partial_file_of_a_killed_process_is_removed_after_hours(tmp_path: Path) -> None:
    cache = FileCache(tmp_path, 1000, GRACE)
    abandoned, recent = tmp_path / ".abandoned.part", tmp_path / ".recent.part"
    for path in (abandoned, recent):
        path.write_bytes(b"x")
    os.utime(abandoned, (_TIME_ORIGIN + NOW - 4 * 3600, time.time()))
    os.utime(recent, (_TIME_ORIGIN + NOW - 3600, 1))
    add_file(cache, "a")
    assert not abandoned.exists() and recent.exists()


def test_partial_file_without_its_time_yet_is_not_taken_for_abandoned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another thread evicts between the creation of a partial file and the setting of its time."""
    cache, real_utime, threads = FileCache(tmp_path, 1, 60.0), os.utime, list[threading.Thread]()

    def utime(*values: Any, **options: Any) -> None:
        if not threads and Path(values[0]).exists():
            threads.append(threading.Thread(target=FileCache(tmp_path, 1, 60.0).evict, args=(0,)))
            threads[0].start()
            threads[0].join(0.3)
        real_utime(*values, **options)

    monkeypatch.setattr(os, "utime", utime)
    with cache.write_file(tmp_path / "a" / "file") as path:
        path.write_bytes(b"x")
        threads[0].join()
    assert threads


def test_cache_in_a_task_of_another_machine_is_in_the_folder_of_the_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archiver.storage.file_cache, "seconds_since_boot", seconds_since_boot)
    content = pickle.dumps(FileCache(tmp_path / "home of the driver", 1000, GRACE))
    assert pickle.loads(content).folder == tmp_path / "home of the driver"
    monkeypatch.setenv(DRIVER_ENVIRONMENT, "{}")
    monkeypatch.setenv("SPARK_EXECUTOR_DIRS", str(tmp_path / "application"))
    add_file(pickle.loads(content), "a")
    assert [path.name for path in tmp_path.iterdir()] == ["application"]
