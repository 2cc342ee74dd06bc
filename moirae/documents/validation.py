"""Validates documents against models. All problems are reported at once, each with its position."""

from __future__ import annotations

import difflib
import math
import types
import typing
from collections.abc import Iterable, Iterator
from typing import Annotated, Any, NamedTuple, TypeVar, Union

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from moirae.documents.reader import Document, PathDescriber, describe_keys
from moirae.documents.types import KeyPath
from moirae.documents.yaml_scalars import Position, format_value
from moirae.errors import Problem

Model = TypeVar("Model", bound=BaseModel)

# A broken file may have tens of thousands of problems, and suggesting names costs time.
MAX_PROBLEMS = 100

_TYPE_MESSAGES = {
    "bool_type": "must be true or false",
    "int_type": "must be an integer",
    "float_type": "must be a number",
    "tuple_type": "must be a list",
    "dict_type": "must be a mapping, `key: value`",
    "mapping_type": "must be a mapping, `key: value`",
    "model_type": "must be a mapping, `key: value`",
    "model_attributes_type": "must be a mapping, `key: value`",
}
_BOUND_MESSAGES = {
    "greater_than": "must be greater than {gt:g}",
    "greater_than_equal": "must be at least {ge:g}",
    "less_than": "must be less than {lt:g}",
    "less_than_equal": "must be at most {le:g}",
    "string_too_long": "longer than {max_length} characters",
    "too_long": "must have at most {max_length} entries",
    "literal_error": "must be {expected}",
}


def validate(
    model: type[Model],
    document: Document,
    *,
    context: object = None,
    describe: PathDescriber = describe_keys,
) -> tuple[Model | None, tuple[Problem, ...]]:
    """Validate a document. Returns the model, or None with the problems.

    `context` is passed to the model's validators.
    """
    model_problems: list[_ModelProblem] = []
    try:
        return model.model_validate(document.data, context=context), ()
    except ValidationError as error:
        for details in error.errors(include_url=False):
            model_problems += _model_problems(document, details)
    model_problems.sort(key=lambda problem: problem.position)
    problems: list[Problem] = []
    for problem in model_problems[:MAX_PROBLEMS]:
        message = problem.message or _format_message(model, problem)
        problems.append(document.make_problem(problem.path, problem.position, message, describe))
    if len(model_problems) > MAX_PROBLEMS:
        position = model_problems[MAX_PROBLEMS].position
        message = f"and {len(model_problems) - MAX_PROBLEMS} more problems"
        problems.append(Problem(document.file, *position, message))
    return None, tuple(problems)


def sort_problems(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """Problems ordered by file and position, without duplicates."""
    unique = dict.fromkeys(problems)
    return tuple(
        sorted(unique, key=lambda problem: (problem.file, problem.line or 0, problem.column or 0))
    )


class _ModelProblem(NamedTuple):
    path: KeyPath  # of the invalid value, or of the mapping with an invalid key
    position: Position
    kind: str
    details: ErrorDetails
    message: str


def _model_problems(document: Document, details: ErrorDetails) -> Iterator[_ModelProblem]:
    kind, value = details["type"], details["input"]
    if isinstance(value, float) and not math.isfinite(value) and kind != "extra_forbidden":
        return  # reported by the reader
    if kind == "too_short" and value:
        return  # its entries exist, but are invalid
    path = tuple(part for part in details["loc"] if not _is_tag(part))
    if kind == "refusal":
        for deeper, message, line in details["ctx"]["problems"]:
            position = _reported_position(document, path, deeper, line)
            yield _ModelProblem(path + deeper, position, kind, details, message)
    elif kind in ("extra_forbidden", "missing"):
        position = _parent_position(document, path)
        yield _ModelProblem(path[:-1], position, kind, details, "")
    elif path and path[-1] == "[key]":
        yield _ModelProblem(path[:-2], document.key_position(path[:-1]), kind, details, "")
    else:
        yield _ModelProblem(path, _position_of(document, path), kind, details, "")


def _is_tag(part: object) -> bool:
    return isinstance(part, str) and part.startswith("<") and part.endswith(">")


def _reported_position(
    document: Document, path: KeyPath, deeper: KeyPath, line: int | None
) -> Position:
    if line is not None:
        return document.text_position(path + deeper, line, 1)
    is_key = len(deeper) == 1 and isinstance(deeper[0], str)
    if is_key:
        return document.key_position(path + deeper)
    return _position_of(document, path + deeper)


def _position_of(document: Document, path: KeyPath) -> Position:
    if document.has(path):
        return document.position(path)
    return _parent_position(document, path)


def _parent_position(document: Document, path: KeyPath) -> Position:
    """The position of the key of a value, or of the nearest parent that exists."""
    while path and not document.has(path):
        path = path[:-1]
    return document.key_position(path)


def _format_message(model: type[BaseModel], fault: _ModelProblem) -> str:
    details, kind = fault.details, fault.kind
    context = details.get("ctx", {})
    if kind == "extra_forbidden":
        *parents, key = details["loc"]
        return _unknown_key_message(str(key), _known_keys(model, tuple(parents)))
    if kind == "missing":
        return f"missing key {format_value(details['loc'][-1])}"
    if kind == "value_error":
        return str(context["error"])
    if kind == "string_type":
        if details["input"] is None:
            return "must be text"
        # The value is not shown: it may be a secret.
        return f"must be text, not {_describe_type(details['input'])}"
    if kind in ("too_short", "string_too_short"):
        return "must not be empty"
    if kind in _TYPE_MESSAGES:
        return f"{_TYPE_MESSAGES[kind]}, not {format_value(details['input'])}"
    if kind in _BOUND_MESSAGES:
        return f"{_BOUND_MESSAGES[kind].format(**context)}, not {format_value(details['input'])}"
    return details["msg"]


def _describe_type(value: object) -> str:
    if isinstance(value, bool):
        return "true or false; quote it"
    if isinstance(value, int | float):
        return "a number; quote it"
    return format_value(value)


def _unknown_key_message(key: str, known_keys: Iterable[str]) -> str:
    message = f"unknown key {format_value(key)}"
    similar_keys = difflib.get_close_matches(key[:64], known_keys, n=1)
    if similar_keys:
        message += f", did you mean {similar_keys[0]!r}?"
    return message


def _known_keys(model: type[BaseModel], path: KeyPath) -> list[str]:
    """The keys of the model at `path`: of a union, those of all its members."""
    types_at_path: list[Any] = [model]
    for part in path:
        if _is_tag(part):
            continue
        member_types: list[Any] = []
        for type_ in types_at_path:
            member_types += _member_types(_type_at(type_, part))
        types_at_path = member_types
    keys: list[str] = []
    for type_ in types_at_path:
        if isinstance(type_, type) and issubclass(type_, BaseModel):
            keys += [field.alias or name for name, field in type_.model_fields.items()]
    return keys


def _type_at(kind: Any, part: str | int) -> Any:
    """The type of the value at `part` of a model, a mapping or a list."""
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        for name, field in kind.model_fields.items():
            if (field.alias or name) == part:
                return field.annotation
        return None
    arguments = typing.get_args(kind) or (None,)
    if typing.get_origin(kind) is tuple:
        return arguments[0]
    return arguments[-1]


def _member_types(kind: Any) -> Iterator[Any]:
    """A type without annotations, or the members of a union without theirs."""
    origin = typing.get_origin(kind)
    if origin is Annotated:
        yield from _member_types(typing.get_args(kind)[0])
    elif origin in (Union, types.UnionType):
        for member in typing.get_args(kind):
            yield from _member_types(member)
    else:
        yield kind
