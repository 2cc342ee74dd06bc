"""Files that were moved to a path, as inotify reports it: such a file is complete at once."""

import os
import threading
from pathlib import Path
from typing import NamedTuple

import structlog
from watchdog.events import FileMovedEvent, FileSystemEvent, FileSystemEventHandler
from watchdog.observers.api import BaseObserver, ObservedWatch

from moirae.live.sources.file_state import FileState, read_moved_state

_LOG = structlog.get_logger()


class MoveWatcher:
    """Remembers the state of a file right after it was moved to a watched path.

    Without inotify, and where it reports nothing (changes made by other hosts on a network mount),
    it knows of no move.
    """

    def __init__(self) -> None:
        self._observer: BaseObserver | None = None
        self._is_available = True
        self._folders: dict[Path, _WatchedFolder] = {}

    def watch(self, path: Path) -> None:
        """Watch a path, again if its folder was replaced since; to be called at intervals."""
        folder = path.parent
        identity = _identify(folder)
        watched = self._folders.get(folder)
        if watched is not None and watched.identity == identity:
            watched.handler.watch(path.name)
        elif identity is not None:
            self._watch_folder(folder, identity)
            if folder in self._folders:
                self._folders[folder].handler.watch(path.name)

    def state_after_move(self, path: Path) -> FileState | None:
        """The state of a file when it was last moved to a path; None: no move is known."""
        watched = self._folders.get(path.parent)
        if watched is None or watched.identity != _identify(path.parent):
            return None
        return watched.handler.state_after_move(path.name)

    def stop(self) -> None:
        """End the threads."""
        if self._observer is not None:
            self._observer.stop()
            self._observer = None

    def _watch_folder(self, folder: Path, identity: tuple[int, int]) -> None:
        observer = self._start_observer()
        if observer is None:
            return
        replaced = self._folders.pop(folder, None)
        handler = _MoveHandler(folder)
        try:
            if replaced is not None:
                observer.unschedule(replaced.watch)
            watch = observer.schedule(
                handler, os.path.realpath(folder), event_filter=[FileMovedEvent]
            )
        except (OSError, KeyError) as error:  # KeyError: the watch has ended by itself
            self._give_up(error)
            return
        self._folders[folder] = _WatchedFolder(identity, handler, watch)

    def _start_observer(self) -> BaseObserver | None:
        if self._observer is None and self._is_available:
            try:
                self._observer = _create_observer()
                self._observer.start()
            except (OSError, ImportError) as error:
                self._give_up(error)
        return self._observer

    def _give_up(self, error: Exception) -> None:
        """Go on without inotify, for example if the user has no further instances of it."""
        if self._is_available:
            self._is_available = False
            _LOG.warning(
                "inotify is not available: files of relations are read some seconds later",
                action="inotify_unavailable",
                error=str(error),
            )


class _MoveHandler(FileSystemEventHandler):
    """Records, in the thread of the observer, what was moved to the watched names of a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._states: dict[str, FileState | None] = {}

    def watch(self, name: str) -> None:
        with self._lock:
            self._states.setdefault(name, None)

    def on_moved(self, event: FileSystemEvent) -> None:
        name = os.path.basename(os.fsdecode(event.dest_path))
        with self._lock:
            if name in self._states:
                self._states[name] = read_moved_state(self._folder / name)

    def state_after_move(self, name: str) -> FileState | None:
        with self._lock:
            return self._states.get(name)


class _WatchedFolder(NamedTuple):
    """`identity`: of the folder that is watched; another one may come to be at its path."""

    identity: tuple[int, int]
    handler: _MoveHandler
    watch: ObservedWatch


def _identify(folder: Path) -> tuple[int, int] | None:
    try:
        status = folder.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _create_observer() -> BaseObserver:
    """An observer that also reports moves from folders it does not watch. Raises `ImportError`."""
    from watchdog.utils import UnsupportedLibcError

    try:
        from watchdog.observers.inotify import InotifyObserver
    except (UnsupportedLibcError, AttributeError) as error:
        raise ImportError(str(error)) from error
    return InotifyObserver(generate_full_events=True)
