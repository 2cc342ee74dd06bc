"""From a document to a model: every fault at once, each with its place, in words for people."""

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

# A broken file may hold tens of thousands of faults; nobody reads them, and searching for likely names costs.
MAX_PROBLEMS = 100

_TYPE_MESSAGES = {
    "bool_type": "must be true or false",
    "int_type": "must be a whole number",
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
    """Check a document against a model; without a model when there are problems.

    `context` goes to the model's validators.
    """
    try:
        return model.model_validate(document.data, context=context), ()
    except ValidationError as error:
        faults = [
            fault
            for details in error.errors(include_url=False)
            for fault in _model_problems(document, details)
        ]
    faults.sort(key=lambda fault: fault.position)
    problems = [
        document.make_problem(
            fault.path, fault.position, fault.message or _format_message(model, fault), describe
        )
        for fault in faults[:MAX_PROBLEMS]
    ]
    if len(faults) > MAX_PROBLEMS:
        more = f"and {len(faults) - MAX_PROBLEMS} more problems"
        problems.append(Problem(document.file, *faults[MAX_PROBLEMS].position, more))
    return None, tuple(problems)


def sort_problems(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """Problems in the order of their files and places, each once."""
    unique = dict.fromkeys(problems)
    return tuple(
        sorted(unique, key=lambda problem: (problem.file, problem.line or 0, problem.column or 0))
    )


class _ModelProblem(NamedTuple):
    path: KeyPath  # of the value at fault, or of the mapping at fault for its keys
    position: Position
    kind: str
    details: ErrorDetails
    message: str


def _model_problems(document: Document, details: ErrorDetails) -> Iterator[_ModelProblem]:
    kind, value = details["type"], details["input"]
    if isinstance(value, float) and not math.isfinite(value) and kind != "extra_forbidden":
        return  # the reader has said so
    if kind == "too_short" and value:
        return  # its entries are there, but wrong
    path = tuple(part for part in details["loc"] if not _is_tag(part))
    if kind == "refusal":
        for deeper, message, *line in details["ctx"]["problems"]:
            place = _reported_position(document, path, deeper, line)
            yield _ModelProblem(path + deeper, place, kind, details, message)
    elif kind in ("extra_forbidden", "missing"):
        position = (
            document.key_position(path) if document.has(path) else _parent_position(document, path)
        )
        yield _ModelProblem(path[:-1], position, kind, details, "")
    elif path and path[-1] == "[key]":
        yield _ModelProblem(path[:-2], document.key_position(path[:-1]), kind, details, "")
    else:
        yield _ModelProblem(path, _position_of(document, path), kind, details, "")


def _is_tag(part: object) -> bool:
    return isinstance(part, str) and part.startswith("<") and part.endswith(">")


def _reported_position(
    document: Document, path: KeyPath, deeper: KeyPath, line: list[int]
) -> Position:
    if line:
        return document.text_position(path + deeper, line[0], 1)
    is_key = len(deeper) == 1 and isinstance(deeper[0], str)
    return document.key_position(path + deeper) if is_key else _position_of(document, path + deeper)


def _position_of(document: Document, path: KeyPath) -> Position:
    return document.position(path) if document.has(path) else _parent_position(document, path)


def _parent_position(document: Document, path: KeyPath) -> Position:
    """Of what is not there: the key of the mapping that lacks it, or that mapping as an item of a list."""
    while path and not document.has(path):
        path = path[:-1]
    return document.key_position(path)


def _format_message(model: type[BaseModel], fault: _ModelProblem) -> str:
    details, kind = fault.details, fault.kind
    context = details.get("ctx", {})
    if kind == "extra_forbidden":
        return _unknown_key_message(
            str(details["loc"][-1]), _known_keys(model, details["loc"][:-1])
        )
    if kind == "missing":
        return f"missing key {format_value(details['loc'][-1])}"
    if kind == "value_error":
        return str(context["error"])
    if kind == "string_type":  # the value itself stays unsaid: it may be a secret
        return (
            "must be text"
            if details["input"] is None
            else f"must be text, not {_describe_type(details['input'])}"
        )
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
    return "a number; quote it" if isinstance(value, int | float) else format_value(value)


def _unknown_key_message(key: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(key[:64], known, n=1)
    return f"unknown key {format_value(key)}" + (f", did you mean {near[0]!r}?" if near else "")


def _known_keys(model: type[BaseModel], loc: KeyPath) -> list[str]:
    """The keys that the model at `loc` takes, found by following the types of the fields on the way."""
    kinds: list[Any] = [model]
    for part in loc:
        if not _is_tag(part):  # the members of a union all stay: a likely key may be any member's
            kinds = [leaf for kind in kinds for leaf in _member_types(_type_at(kind, part))]
    models = [kind for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseModel)]
    return [field.alias or name for found in models for name, field in found.model_fields.items()]


def _type_at(kind: Any, part: str | int) -> Any:
    """The type of the value at `part` of a model, a mapping or a list."""
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        fields = kind.model_fields.items()
        return next(
            (field.annotation for name, field in fields if (field.alias or name) == part), None
        )
    arguments = typing.get_args(kind) or (None,)
    return arguments[0] if typing.get_origin(kind) is tuple else arguments[-1]


def _member_types(kind: Any) -> Iterator[Any]:
    """A type without its annotations, or the members of a union without theirs."""
    origin = typing.get_origin(kind)
    if origin is Annotated:
        yield from _member_types(typing.get_args(kind)[0])
    elif origin in (Union, types.UnionType):
        yield from (leaf for member in typing.get_args(kind) for leaf in _member_types(member))
    else:
        yield kind
