"""Declarations of operations: routes, roles and arguments of all of them."""

import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any, get_args, get_type_hints

from moirae.services.load import load_operations
from moirae.services.models import Arguments
from moirae.services.operation import path_parameters

OPERATIONS = load_operations().values()


def test_routes_are_unique() -> None:
    routes = [
        (operation.method, re.sub(r"{[^}]*}", "{}", operation.path)) for operation in OPERATIONS
    ]
    assert len(routes) == len(set(routes))


def test_each_parameter_is_in_the_path_the_query_or_the_body() -> None:
    for operation in OPERATIONS:
        names = set(operation.parameter_types) - {"query", "body"}
        assert names == set(path_parameters(operation.path)), operation.name
        for name in {"query", "body"} & set(operation.parameter_types):
            assert issubclass(operation.parameter_types[name], Arguments), operation.name


def test_get_changes_nothing_and_every_change_needs_more_than_a_viewer() -> None:
    for operation in OPERATIONS:
        if operation.method == "GET":
            assert not operation.changes, operation.name
        if operation.changes:
            assert operation.role != "viewer", operation.name


def test_each_operation_is_described() -> None:
    for operation in OPERATIONS:
        assert operation.description.endswith("."), operation.name


def test_secrets_are_for_administrators() -> None:
    for operation in OPERATIONS:
        if operation.has_secret_result or operation.name.startswith("system.list_tokens"):
            assert operation.role == "admin", operation.name


def test_results_are_written_with_all_of_their_fields() -> None:
    """orjson writes the slots of a class or its `__dict__`, not the fields of both."""
    for operation in OPERATIONS:
        for result in _list_dataclasses(operation.result_type, set()):
            has_slots = any("__slots__" in base.__dict__ for base in result.__mro__[:-1])
            has_dict = "__dict__" in {name for base in result.__mro__ for name in base.__dict__}
            assert not (has_slots and has_dict), f"{result.__name__}: declare slots=True"


def _list_dataclasses(annotation: Any, seen: set[type]) -> Iterator[type]:
    if isinstance(annotation, type) and is_dataclass(annotation) and annotation not in seen:
        seen.add(annotation)
        yield annotation
        hints = get_type_hints(annotation)
        for field in fields(annotation):
            yield from _list_dataclasses(hints.get(field.name), seen)
    for argument in get_args(annotation):
        yield from _list_dataclasses(argument, seen)
