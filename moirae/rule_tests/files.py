"""Files of rule tests: which there are, and what is in them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from glob import glob
from pathlib import Path

from moirae.config import Settings
from moirae.documents import Document, read_document, validate
from moirae.errors import Problem, ProblemsError, UsageError
from moirae.rule_tests.model import RuleTestFile

_FOLDER = "tests"
_PATTERN = "*.yaml"
_EMPTY_MESSAGE = "the file contains no tests"


@dataclass(frozen=True)
class RuleTestDocument:
    """A file of rule tests, with the rule files that it tests."""

    document: Document
    content: RuleTestFile
    rule_files: tuple[Path, ...]


def find_test_files(settings: Settings, given: Sequence[Path]) -> list[Path]:
    """The given files and those in given folders; by default those in `tests` beside rule files.

    Raises `UsageError` if there are none.
    """
    folders = list(given)
    if not folders:
        parents = dict.fromkeys(path.parent for path in settings.find_rule_files())
        folders = [parent / _FOLDER for parent in parents if (parent / _FOLDER).is_dir()]
    files: list[Path] = []
    for path in folders:
        if path.is_dir():
            files += sorted(path.glob(_PATTERN))
        elif path.is_file():
            files.append(path)
        else:
            raise UsageError(f"{path}: no such file or folder")
    if not files:
        folder_names = ", ".join(map(str, folders)) or f"folders {_FOLDER} beside the rule files"
        raise UsageError(f"no files of rule tests ({_PATTERN}) in {folder_names}")
    return files


def _find_files(folder: Path, patterns: Sequence[str]) -> Iterator[Path]:
    """The files that patterns match, once each; a pattern that matches none, as if it were a name."""
    selected: set[Path] = set()
    for pattern in patterns:
        names = sorted(glob(str(folder / pattern), recursive=True)) or [str(folder / pattern)]
        for path in map(Path, names):
            if path not in selected:
                selected.add(path)
                yield path


def read_test_files(settings: Settings, paths: Sequence[Path]) -> list[RuleTestDocument]:
    """Raises `ProblemsError` with the problems of all files."""
    problems: list[Problem] = []
    documents: list[RuleTestDocument] = []
    for path in paths:
        document, read_problems = read_document(path, empty_message=_EMPTY_MESSAGE)
        problems += read_problems
        if document is None:
            continue
        content, model_problems = validate(RuleTestFile, document)
        problems += model_problems
        if content is not None:
            rule_files = tuple(_find_files(path.parent, content.rule_files))
            documents.append(RuleTestDocument(document, content, rule_files))
    if problems:
        raise ProblemsError(problems)
    return documents
