"""Declarations of operations: routes, roles and arguments of all of them."""

import re

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
