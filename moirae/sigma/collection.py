"""Reads Sigma files: rules, correlations and filters, and where each starts. pySigma parses them.

A document that cannot be read is a problem; the others are used.
"""

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_URL, UUID, uuid5

import yaml
from sigma.collection import deep_dict_update
from sigma.correlations import SigmaCorrelationRule
from sigma.exceptions import SigmaError
from sigma.filters import SigmaFilter
from sigma.policy import SigmaPolicy
from sigma.policy.regex_engine import PythonRegexEngine, RE2RegexEngine
from sigma.rule import SigmaRule
from sigma.rule.base import SigmaYAMLLoader, check_alias_expansion

from moirae.sigma.report import LeftOut, RuleLocation

SUFFIXES = frozenset({".yml", ".yaml"})
_SEPARATOR = re.compile(r"^---(?=\s|$)", re.MULTILINE)
# What a Sigma document has. Others, such as settings of a repository, are no rules.
_LISTS_OF_TEXTS = ("references", "falsepositives", "fields")
_SIGMA_KEYS = frozenset({"detection", "correlation", "filter", "logsource", "action"})
_SOURCE_SUFFIX = re.compile(r" in rule .*| in /.*", re.DOTALL)


class _EitherRegex(PythonRegexEngine):
    """Accepts what Python or RE2 accept. What Java lacks is found when a pattern is written."""

    @property
    def error(self) -> Any:
        """The errors of both."""
        return Exception

    def compile(self, pattern: str, flags: int = 0) -> Any:
        """Raises the error of RE2 if neither accepts the pattern."""
        try:
            return super().compile(pattern, flags)
        except re.error:
            return RE2RegexEngine().compile(pattern, flags)


_POLICY = SigmaPolicy(regex_engine=_EitherRegex())


@dataclass(frozen=True)
class SigmaDocument:
    """A rule, correlation or filter.

    `id`: Sigma's, or one made from its name or file. `name`: of its file inside the collection.
    `tags`: as written; pySigma refuses rules with one that has no namespace, such as `sysmon`.
    """

    content: SigmaRule | SigmaCorrelationRule | SigmaFilter
    id: str
    name: str
    location: RuleLocation
    tags: tuple[str, ...] = ()


@dataclass
class Collection:
    """All documents of some files. `ignored`: number of documents that are not of Sigma.

    `correlated`: names and IDs of the rules that correlations which cannot be read use alone.
    """

    documents: list[SigmaDocument] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)
    correlated: set[str] = field(default_factory=set)
    files: int = 0
    ignored: int = 0


def read_collection(paths: Sequence[Path]) -> Collection:
    """Read files, and the files of folders."""
    collection = Collection()
    for file, name in _find_files(paths):
        collection.files += 1
        try:
            text = file.read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
            location = RuleLocation(str(file), None)
            collection.left_out.append(LeftOut(location, "file", f"cannot be read: {reason}"))
            continue
        _add_file(collection, str(file), name, text)
    _drop_repeated_ids(collection)
    return collection


def parse_collection(file: str, text: str) -> Collection:
    """Read the text of one file."""
    collection = Collection(files=1)
    _add_file(collection, file, file, text)
    _drop_repeated_ids(collection)
    return collection


def _find_files(paths: Iterable[Path]) -> Iterator[tuple[Path, str]]:
    """Each file, and its name inside the collection."""
    for path in paths:
        if not path.is_dir():
            yield path, path.name
            continue
        for file in sorted(path.rglob("*")):
            inside = file.relative_to(path)
            is_hidden = any(part.startswith(".") for part in inside.parts)
            if file.suffix in SUFFIXES and file.is_file() and not is_hidden:
                yield file, inside.as_posix()


def _add_file(collection: Collection, file: str, name: str, text: str) -> None:
    global_part: dict[str, Any] = {}
    previous: dict[str, Any] = {}
    for number, (line, part) in enumerate(_split_documents(text)):
        location = RuleLocation(file, line)
        try:
            document = yaml.load(part, SigmaYAMLLoader)
            check_alias_expansion(document, SigmaError)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            if mark is not None:
                location = RuleLocation(file, line + mark.line, mark.column + 1)
            reason = f"not YAML: {error.problem or error.context}"
            collection.left_out.append(LeftOut(location, "file", reason))
            continue
        except (yaml.YAMLError, SigmaError, ValueError, RecursionError) as error:
            collection.left_out.append(LeftOut(location, "file", f"not YAML: {_one_line(error)}"))
            continue
        if document is None:
            continue
        if not isinstance(document, dict) or not _SIGMA_KEYS.intersection(document):
            collection.ignored += 1
            continue
        action = document.pop("action", None)
        if action == "global":
            global_part = previous = document
        elif action == "reset":
            global_part = {}
        elif action in (None, "repeat"):
            if action == "repeat":
                document = deep_dict_update(deepcopy(previous), document)
            elif not {"correlation", "filter"}.intersection(document):
                document = deep_dict_update(document, deepcopy(global_part))
            previous = document
            _add_document(collection, document, location, f"{name}#{number}" if number else name)
        else:
            collection.left_out.append(LeftOut(location, "invalid", f"unknown action {action!r}"))


def _split_documents(text: str) -> Iterator[tuple[int, str]]:
    """The line at which each document of a file starts, and its text."""
    starts = [0, *(match.start() for match in _SEPARATOR.finditer(text)), len(text)]
    for start, end in itertools.pairwise(starts):
        part = text[start:end]
        if part.strip().strip("-").strip():
            yield text.count("\n", 0, start) + 1, part


def _add_document(
    collection: Collection, document: dict[str, Any], location: RuleLocation, name: str
) -> None:
    title = str(document.get("title") or "")
    tags = document.get("tags") or []
    location = location._replace(title=title, sigma_id=str(document.get("id") or ""))
    try:
        content = _parse(deepcopy(document))
    except Exception as error:
        reason = _one_line(error)
        if not isinstance(error, SigmaError):
            # pySigma also fails in other ways on values that it does not expect.
            reason = f"not a valid Sigma rule: {reason}"
        collection.left_out.append(LeftOut(location, "invalid", reason))
        collection.correlated |= _list_correlated(document)
        return
    texts = tuple(map(str, tags)) if isinstance(tags, list) else (str(tags),)
    sigma_id = _identify(content, name)
    collection.documents.append(SigmaDocument(content, sigma_id, name, location, texts))


def _parse(document: dict[str, Any]) -> SigmaRule | SigmaCorrelationRule | SigmaFilter:
    document.pop("tags", None)
    for key in _LISTS_OF_TEXTS:
        # Public collections also write one of them without a list.
        if isinstance(document.get(key), str):
            document[key] = [document[key]]
    if "correlation" in document:
        # pySigma reads it inside; the specification has it beside `level`.
        if "generate" in document and isinstance(document["correlation"], dict):
            document["correlation"].setdefault("generate", document["generate"])
        return SigmaCorrelationRule.from_dict(document)
    if "filter" in document:
        return SigmaFilter.from_dict(document, policy=_POLICY)
    return SigmaRule.from_dict(document, policy=_POLICY)


def _list_correlated(document: dict[str, Any]) -> set[str]:
    """The names and IDs of the rules that a correlation uses, if they are no rules of their own."""
    correlation = document.get("correlation")
    if not isinstance(correlation, dict):
        return set()
    if correlation.get("generate", document.get("generate")) is True:
        return set()
    rules = correlation.get("rules") or []
    return set(map(str, rules if isinstance(rules, list) else [rules]))


def _identify(content: SigmaRule | SigmaCorrelationRule | SigmaFilter, name: str) -> str:
    if isinstance(content.id, UUID):
        return str(content.id)
    return str(uuid5(NAMESPACE_URL, f"sigma:{content.name or name}"))


def _drop_repeated_ids(collection: Collection) -> None:
    """Keep the first document with each ID."""
    first_locations: dict[str, RuleLocation] = {}
    documents = []
    for document in collection.documents:
        first = first_locations.setdefault(document.id, document.location)
        if first is document.location:
            documents.append(document)
            continue
        reason = f"the ID {document.id} is also that of {first}"
        collection.left_out.append(LeftOut(document.location, "repeated id", reason))
    collection.documents = documents


def _one_line(error: Exception) -> str:
    return " ".join(_SOURCE_SUFFIX.sub("", str(error)).split())[:300]
