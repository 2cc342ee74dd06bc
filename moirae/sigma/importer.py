"""Imports Sigma collections into rule files. It can be repeated after any failure.

Rule files are written first, each at once, and the lock file last.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from moirae.config import Settings, Stream
from moirae.documents import parse_document, read_document, validate
from moirae.errors import MoiraeError, Problem, ProblemsError, UsageError
from moirae.rules import parse_rules
from moirae.sigma.collection import read_collection
from moirae.sigma.fields import StreamLayout
from moirae.sigma.generate import RuleGenerator
from moirae.sigma.lock import LockFile, format_lock, read_lock
from moirae.sigma.model import SigmaMap
from moirae.sigma.plan import ImportPlan, plan_import
from moirae.sigma.queries import QueryWriter
from moirae.sigma.report import ImportReport
from moirae.sigma.yaml_text import RuleFileText


@dataclass(frozen=True)
class ImportRequest:
    """What to import: files and folders, the stream, its map, and where rules are written.

    `key`: None: as the map says. `folder`: of the rule files and the lock.
    """

    paths: Sequence[Path]
    stream: str
    folder: Path
    map_file: Path | None = None
    key: Sequence[str] | None = None
    dry_run: bool = False


def import_collection(settings: Settings, request: ImportRequest) -> ImportReport:
    """Import a collection. Raises `MoiraeError` if nothing can be imported."""
    stream = _find_stream(settings, request.stream)
    sigma_map = SigmaMap() if request.map_file is None else read_map(request.map_file)
    layout = StreamLayout(request.stream, stream.columns, sigma_map)
    if request.map_file is not None:
        _check_map(layout, request.map_file)
    key = _find_key(layout, request)
    for path in request.paths:
        if not path.exists():
            raise UsageError(f"{path}: no such file or directory")
    id_columns = stream.id or tuple(name for name in stream.columns if name != stream.time)
    collection = read_collection(request.paths)
    if not collection.documents and not collection.left_out:
        names = ", ".join(map(str, request.paths))
        raise UsageError(f"{names}: no Sigma rules in {collection.files} files")
    generator = RuleGenerator(QueryWriter(layout, stream.time, id_columns), key)
    generated = generator.generate(collection)
    lock_path = request.folder / f"sigma_{request.stream}.lock"
    lock = read_lock(lock_path, request.stream)
    texts = _read_rule_files(request.folder, request.stream)
    other_groups = _read_other_groups(settings, request.folder, texts)
    plan = plan_import(
        generated, lock, {name: RuleFileText(text) for name, text in texts.items()}, other_groups
    )
    plan.report.ignored = collection.ignored
    plan.report.warnings += _find_unused_files(settings, request.folder, plan)
    _check_texts(request.folder, plan)
    if not request.dry_run:
        _write(request.folder, plan, lock_path, lock)
    return plan.report


def read_map(file: Path) -> SigmaMap:
    """Read a map file. Raises `ProblemsError`."""
    document, problems = read_document(file, empty_message="the file contains no map")
    if document is None or problems:
        raise ProblemsError(problems)
    sigma_map, problems = validate(SigmaMap, document)
    if sigma_map is None:
        raise ProblemsError(problems)
    return sigma_map


def _check_map(layout: StreamLayout, file: Path) -> None:
    faults = layout.check()
    if not faults:
        return
    document, _ = parse_document(str(file), file.read_text(encoding="utf-8"), empty_message="")
    assert document is not None
    raise ProblemsError(
        Problem(str(file), *document.position(path), message) for path, message in faults
    )


def _find_stream(settings: Settings, name: str) -> Stream:
    stream = settings.streams.get(name)
    if stream is None:
        names = ", ".join(settings.streams)
        raise UsageError(f"no stream {name!r} in the workspace; streams: {names}")
    if stream.time != "ts" and "ts" in map(str.lower, stream.columns):
        raise UsageError(f"stream {name} has a column ts that is not its time: rename it first")
    return stream


def _find_key(layout: StreamLayout, request: ImportRequest) -> list[str]:
    names = request.key or layout.map.key
    if not names:
        raise UsageError(
            "--key is missing: name the columns whose values make one alert of several events, "
            "such as the host; or name them as key in the map"
        )
    columns = {name.lower(): name for name in layout.columns}
    key: list[str] = []
    for name in names:
        column = columns.get(name.lower())
        if column is None:
            names_of_columns = ", ".join(layout.columns)
            raise UsageError(
                f"stream {layout.stream} has no column {name!r}; columns: {names_of_columns}"
            )
        key.append(column)
    return key


def _read_rule_files(folder: Path, stream: str) -> dict[str, str]:
    """The texts of the rule files of the import, by name."""
    texts: dict[str, str] = {}
    for file in sorted(folder.glob(f"sigma_{stream}_*.yaml")):
        try:
            texts[file.name] = file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise MoiraeError(f"{file}: cannot be read: {error}") from error
    return texts


def _read_other_groups(settings: Settings, folder: Path, texts: dict[str, str]) -> set[str]:
    """The names of groups in other rule files of the workspace; files with errors are left out."""
    names: set[str] = set()
    for file in settings.find_rule_files():
        if file.parent.resolve() == folder.resolve() and file.name in texts:
            continue
        try:
            names.update(RuleFileText(file.read_text(encoding="utf-8")).groups)
        except (OSError, UnicodeDecodeError, MoiraeError):
            continue
    return names


def _find_unused_files(settings: Settings, folder: Path, plan: ImportPlan) -> list[str]:
    """A warning if the workspace does not read the written files."""
    for name in plan.texts:
        path = (folder / name).resolve()
        if not any(path.match(str(Path(pattern).resolve())) for pattern in settings.rules):
            return [
                f"{folder / name}: not a rule file of the workspace: add it to `rules` in the "
                "workspace file"
            ]
    return []


def _check_texts(folder: Path, plan: ImportPlan) -> None:
    """Raises `ProblemsError` if a file would not be a valid rule file: nothing is written then."""
    for name, text in plan.texts.items():
        _, problems = parse_rules(str(folder / name), text)
        errors = [problem for problem in problems if problem.severity == "error"]
        if errors:
            raise ProblemsError(errors)


def _write(folder: Path, plan: ImportPlan, lock_path: Path, old_lock: LockFile) -> None:
    lock_text = format_lock(plan.lock)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in plan.texts.items():
            _replace(folder / name, text)
        if lock_text != format_lock(old_lock) or not lock_path.exists():
            _replace(lock_path, lock_text)
    except OSError as error:
        path = error.filename or folder
        raise MoiraeError(f"{path}: cannot be written: {error.strerror}") from error


def _replace(path: Path, text: str) -> None:
    """Write a file at once."""
    incomplete = path.with_name(f".{path.name}.incomplete")
    with incomplete.open("w", encoding="utf-8") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())
    incomplete.replace(path)
