"""All gateways against the schema: PostgreSQL accepts each statement, each has one caller, and the
columns of its result are the fields of its record.
"""

import ast
import inspect
import pkgutil
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import fields
from importlib import import_module
from pathlib import Path

import pytest
from psycopg.pq import ExecStatus

import sql
from moirae.runtime import connect_database
from sql.gateway import Gateway
from sql.loader import load
from tests.property.world import workspace

_PARAMETER = re.compile(r"%\((\w+)\)s")
# Methods of `Gateway` that take a record first, then the name of a statement.
_RECORD_METHODS = ("_record", "_records", "_stream")


def _gateways() -> list[type[Gateway]]:
    for module in pkgutil.iter_modules(sql.__path__):
        import_module(f"sql.{module.name}")
    return sorted(Gateway.__subclasses__(), key=lambda gateway: gateway.__name__)


GATEWAYS = _gateways()


@pytest.fixture(scope="module")
def connection(public_folder: Path) -> Iterator[sql.Connection]:
    with connect_database(workspace(public_folder), "tests") as opened:
        yield opened


def _calls(gateway: type[Gateway]) -> Iterator[tuple[str, str | None]]:
    """The statements that a gateway executes, each with the name of its record, if any."""
    tree = ast.parse(inspect.getsource(inspect.getmodule(gateway)))  # type: ignore[arg-type]
    (definition,) = (
        node
        for node in tree.body
        if isinstance(node, ast.ClassDef) and node.name == gateway.__name__
    )
    for node in ast.walk(definition):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        record = None
        arguments = list(node.args)
        if node.func.attr in _RECORD_METHODS:
            record = ast.unparse(arguments.pop(0))
        is_own_method = ast.unparse(node.func.value) == "self" and node.func.attr.startswith("_")
        if is_own_method and arguments and isinstance(arguments[0], ast.Constant):
            yield str(arguments[0].value), record


@pytest.mark.parametrize("gateway", GATEWAYS, ids=lambda gateway: gateway.__name__)
def test_each_statement_has_one_gateway_that_executes_it(gateway: type[Gateway]) -> None:
    assert {statement for statement, _ in _calls(gateway)} == set(load(gateway.queries))


def test_no_file_of_statements_belongs_to_two_gateways() -> None:
    files = Counter(gateway.queries for gateway in GATEWAYS)
    assert [name for name, count in files.items() if count > 1] == []
    folder = Path(inspect.getfile(sql)).parent / "queries"
    assert set(files) == {path.stem for path in folder.glob("*.sql")}


def _prepare(connection: sql.Connection, statement: str) -> list[str]:
    """The names of the columns that a statement returns."""
    numbers: dict[str, int] = {}
    text = _PARAMETER.sub(
        lambda match: f"${numbers.setdefault(match[1], len(numbers) + 1)}", statement
    ).replace("%%", "%")
    prepared = connection.pgconn.prepare(b"", text.encode())
    assert prepared.status == ExecStatus.COMMAND_OK, prepared.error_message.decode()
    described = connection.pgconn.describe_prepared(b"")
    names = [described.fname(column) for column in range(described.nfields)]
    return [name.decode() for name in names if name is not None]


@pytest.mark.parametrize("gateway", GATEWAYS, ids=lambda gateway: gateway.__name__)
def test_statements_are_valid_and_their_columns_are_the_fields_of_their_records(
    connection: sql.Connection, gateway: type[Gateway]
) -> None:
    columns_by_statement = {}
    for name, statement in load(gateway.queries).items():
        columns_by_statement[name] = _prepare(connection, statement.as_string())
    for name, record in _calls(gateway):
        if record is not None:
            record_type = getattr(inspect.getmodule(gateway), record)
            names = sorted(field.name for field in fields(record_type))
            assert sorted(columns_by_statement[name]) == names, f"{name}: {record}"
