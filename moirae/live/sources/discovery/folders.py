"""New files of a stream in local folders, found at little cost while nothing changes."""

import os
import re
import time
from collections.abc import Callable, Iterator, Sequence, Set
from contextlib import suppress
from pathlib import Path

import structlog

from archiver.file_names import escape_name
from archiver.globs import PathGlob, matches_part, parse_glob
from moirae.live.sources.discovery.folder_events import FolderEvent, FolderEvents
from moirae.live.sources.discovery.folder_sweep import FolderSweep
from moirae.live.sources.files import DiscoveredFile, stat_file, unit_name

_LOG = structlog.get_logger()

# Seconds: a folder that changed this recently may change again without a new modification time.
_CLOCK_RESOLUTION = 2.0
# Not every file system updates the modification times of folders: files are listed again at
# intervals of at least `_MIN_LISTING_INTERVAL` seconds, at most this share of the time.
_LISTING_SHARE = 0.005
_MIN_LISTING_INTERVAL = 1.0
# Share of the time that listings of a changing folder take at most.
_BUSY_LISTING_SHARE = 0.25


class FolderDiscovery:
    """Finds each file that matches a glob and is not in the ledger, once.

    `find_archived` returns those of some names of files that are in the ledger. While nothing
    changes, folders are listed again only after the listing interval. With `watch`, changes that
    inotify reports need no listing: their cost does not grow with the folder. Folders are then listed
    again, too, but a little in each call. What is remembered of a file ends with the file, so that
    one that comes back is found again.
    """

    def __init__(
        self,
        stream: str,
        pattern: str,
        base: Path,
        find_archived: Callable[[Set[str]], Set[str]],
        *,
        watch: bool = False,
    ) -> None:
        """Files are named relative to `base`."""
        self._is_watching = watch
        self._events: FolderEvents | None = None
        # Modification times of watched folders: as events explain them, and others.
        self._explained_times: dict[str, int] = {}
        self._unexplained_times: dict[str, int] | None = None
        self._sweep: FolderSweep | None = None  # the listing beside events
        self._stream = stream
        self._globs = parse_glob(pattern)
        self._base = base
        self._find_archived = find_archived
        self._problems: list[str] = []
        self._known_names: dict[tuple[int, str], set[str]] = {}
        self._names_of_no_files: set[str] = set()
        # Modification times of the folders at the last listing, if they can be trusted.
        self._folder_times: dict[str, int] | None = None
        self._list_after = 0.0
        self._list_again_at = 0.0

    @property
    def problem(self) -> str | None:
        """Why the last listing is incomplete; None: it is complete."""
        return self._problems[0] if self._problems else None

    def create_folders(self) -> None:
        """Create the folders above the first wildcards. Raises `OSError`."""
        for path_glob in self._globs:
            Path(path_glob.folder).mkdir(parents=True, exist_ok=True)

    def iterate_paths(self) -> Iterator[str]:
        """The paths of the files that were found until now, and may be there still."""
        known_names = {key: list(names) for key, names in self._known_names.items()}
        for (index, folder), names in known_names.items():
            part = self._globs[index].parts[-1]
            for name in names:
                if _is_match(part, name):
                    yield os.path.join(folder, name)

    def stop(self) -> None:
        """End watching folders."""
        self._sweep = None
        if self._events is not None:
            self._events.close()
            self._events = None

    def find_new(self) -> list[DiscoveredFile]:
        """The files that are new since the last call, except those in unreadable folders."""
        started_at = time.monotonic()
        reported: list[DiscoveredFile] = []
        if self._events is not None:
            events = self._read_events(self._events)
            if events is not None:
                reported = self._find_reported(events)
                if started_at < self._list_again_at:
                    return reported
                swept = self._find_swept()
                if swept is not None:
                    return reported + swept
            self.stop()
            self._list_again_at = started_at
        if started_at < self._list_after:
            return reported
        if started_at < self._list_again_at and self._folders_are_unchanged():
            return reported
        trusted_until = (time.time() - _CLOCK_RESOLUTION) * 1e9
        self._folder_times = None
        self._problems = []
        folder_times: dict[str, int] = {}
        expanded = [self._expand_folders(path_glob, folder_times) for path_glob in self._globs]
        self._watch(folder_times)
        new_paths: dict[str, str] = {}
        for index, expanded_folders in enumerate(expanded):
            for folder in expanded_folders:
                for path in self._list_new(index, folder):
                    new_paths[unit_name(Path(path), self._base)] = path
        files = self._stat_unread(new_paths)
        if self._problems:
            self.stop()
        if not self._problems and max(folder_times.values(), default=0) < trusted_until:
            self._folder_times = folder_times
        now = time.monotonic()
        self._list_after = now + (now - started_at) * (1 / _BUSY_LISTING_SHARE - 1)
        self._list_again_at = now + max(_MIN_LISTING_INTERVAL, (now - started_at) / _LISTING_SHARE)
        return reported + files

    def _watch(self, folder_times: dict[str, int]) -> None:
        """Watch folders that are about to be listed, in place of those watched so far."""
        self.stop()
        if self._is_watching:
            with suppress(OSError):  # listings find files, too
                self._events = FolderEvents(folder_times)
            self._explained_times = dict(folder_times)
            self._unexplained_times = None

    def _read_events(self, events: FolderEvents) -> Sequence[FolderEvent] | None:
        """What has changed; None: a listing tells, as after changes by other hosts of a mount."""
        reported = events.read()
        # Read after the events: the times then tell of no more than these, or of events that come.
        times = {folder: _modified_at(folder) for folder in self._explained_times}
        if reported is None or reported:
            self._explained_times = times
            self._unexplained_times = None
            return reported
        if times == self._explained_times:
            return reported
        if times == self._unexplained_times:
            return None
        self._unexplained_times = times  # its events may be on their way
        return reported

    def _find_swept(self) -> list[DiscoveredFile] | None:
        """The new files of the listing beside events, once it ends; None: list all at once."""
        folder_times: dict[str, int] = {}
        if self._sweep is None:
            for path_glob in self._globs:
                self._expand_folders(path_glob, folder_times)
            if self._problems or folder_times.keys() != self._explained_times.keys():
                return None
            self._sweep = FolderSweep(list({folder for _, folder in self._known_names}))
        try:
            if not self._sweep.advance():
                return []
        except OSError:
            return None
        sweep, self._sweep = self._sweep, None
        new_paths: dict[str, str] = {}
        for (index, folder), known_names in self._known_names.items():
            present = sweep.names[folder]
            for name in [name for name in known_names if name not in present]:
                if (folder, name) not in sweep.added_names:
                    known_names.discard(name)
            for path in self._select_new(index, folder, present - known_names):
                new_paths[unit_name(Path(path), self._base)] = path
        files = self._stat_unread(new_paths)
        interval = max(_MIN_LISTING_INTERVAL, sweep.seconds / _LISTING_SHARE)
        self._list_again_at = time.monotonic() + interval
        return files

    def _find_reported(self, events: Sequence[FolderEvent]) -> list[DiscoveredFile]:
        """The new files among entries of folders that have come and gone."""
        new_paths: dict[str, str] = {}
        for event in events:
            if self._sweep is not None and not event.is_present:
                self._sweep.names.get(event.folder, set()).discard(event.name)
            path = os.path.join(event.folder, event.name)
            for index, path_glob in enumerate(self._globs):
                known_names = self._known_names.get((index, event.folder))
                if known_names is None:
                    continue
                if not event.is_present:
                    known_names.discard(event.name)
                    new_paths.pop(unit_name(Path(path), self._base), None)
                elif event.name not in known_names:
                    if _is_match(path_glob.parts[-1], event.name):
                        new_paths[unit_name(Path(path), self._base)] = path
                    else:
                        known_names.add(event.name)
        return self._stat_unread(new_paths)

    def _expand_folders(self, path_glob: PathGlob, folder_times: dict[str, int]) -> Sequence[str]:
        """The folders of the files of a glob.

        `folder_times` gets the modification time of each folder whose entries matter.
        """
        folders = [path_glob.folder]
        folder_times[path_glob.folder] = _modified_at(path_glob.folder)
        for part in path_glob.parts[:-1]:
            folders = [path for folder in folders for path in self._list_subfolders(folder, part)]
            folder_times.update((folder, _modified_at(folder)) for folder in folders)
        return folders

    def _list_subfolders(self, folder: str, part: str | re.Pattern[str]) -> Iterator[str]:
        names = [part] if isinstance(part, str) else sorted(self._list_folder(folder))
        for name in names:
            path = os.path.join(folder, name)
            if matches_part(part, name) and os.path.isdir(path):
                yield path

    def _list_folder(self, folder: str) -> list[str]:
        """The names in a folder; none if it does not exist or cannot be read."""
        try:
            return os.listdir(folder)
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            self._problems.append(
                f"{escape_name(folder)}: cannot list the folder: {error.strerror}"
            )
            return []

    def _list_new(self, index: int, folder: str) -> list[str]:
        """Paths in a folder that match and are not remembered."""
        present = set(self._list_folder(folder))
        known_names = self._known_names.get((index, folder), set()) & present
        self._known_names[index, folder] = known_names
        return self._select_new(index, folder, present - known_names)

    def _select_new(self, index: int, folder: str, names: Set[str]) -> list[str]:
        """The paths of those of some names that match; others are remembered."""
        part = self._globs[index].parts[-1]
        paths: list[str] = []
        for name in names:
            if _is_match(part, name):
                paths.append(os.path.join(folder, name))
            else:
                self._known_names[index, folder].add(name)
        return paths

    def _stat_unread(self, paths: dict[str, str]) -> list[DiscoveredFile]:
        """Those of some files, by name, that are not in the ledger; all are remembered."""
        archived = self._find_archived(paths.keys()) if paths else frozenset()
        files: list[DiscoveredFile] = []
        for name, path in paths.items():
            if name not in archived:
                file = stat_file(self._stream, Path(path))
                if file is None:
                    self._log_once(name, path)
                    continue  # it may become a file
                files.append(file)
            folder, base_name = os.path.split(path)
            if self._sweep is not None:
                self._sweep.added_names.add((folder, base_name))
            for index in range(len(self._globs)):
                self._known_names.get((index, folder), set()).add(base_name)
        return files

    def _log_once(self, name: str, path: str) -> None:
        """Log that a name matches and is no file, unless it is gone or that was logged."""
        if name not in self._names_of_no_files and os.path.lexists(path):
            self._names_of_no_files.add(name)
            _LOG.warning(
                "not read: it matches the glob of the stream and is no file",
                action="no_file",
                stream=self._stream,
                name=name,
            )

    def _folders_are_unchanged(self) -> bool:
        times = self._folder_times
        if times is None:
            return False
        return all(_modified_at(folder) == modified for folder, modified in times.items())


def _is_match(part: str | re.Pattern[str], name: str) -> bool:
    """Whether a file of this name in a folder of a glob is one of the stream."""
    return not name.startswith(".") and matches_part(part, name)


def _modified_at(folder: str) -> int:
    """In nanoseconds; 0 for a folder that cannot be read."""
    try:
        return os.stat(folder).st_mtime_ns
    except OSError:
        return 0
