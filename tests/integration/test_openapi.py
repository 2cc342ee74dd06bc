"""Requests made from the OpenAPI document: no server error, and answers as it describes them."""

from collections.abc import Iterator

import pytest
import schemathesis
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.api_data import RULES, WORKSPACE, fill
from tests.described_requests import find_failures
from tests.served import Served, serve

pytestmark = pytest.mark.slow


def no_operation_fails(
    _: schemathesis.CheckContext, response: schemathesis.Response, case: schemathesis.Case
) -> None:
    """No server error; 503 only where something that the operation needs is missing."""
    if response.status_code < 500:
        return
    kind = response.json().get("type", "").removeprefix("urn:moirae:problem:")
    assert response.status_code == 503, case
    assert kind in ("unreachable", "failed"), case
    assert NEEDS_RECALL_PROCESS in case.path, case


CHECKS = [
    no_operation_fails,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
# The first does not end, the second and third answer 503 without a live process.
EXCLUDED = ["/api/v1/live", "/-/reload", "/-/ready"]
# Without a recall process it answers 503.
NEEDS_RECALL_PROCESS = "/queries"
# Each request starts a process.
IN_CHILD = r"/(rules/(check|diff|apply)|events/\{event\}/repeat|similarity/evaluation|queries)$"


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with serve(WORKSPACE + "\nno_input: null\n", RULES) as running:
        fill(running.connection)
        yield running


@pytest.fixture(scope="module")
def api_schema(served: Served) -> schemathesis.BaseSchema:
    document = served.ask("GET", "/api/v1/openapi.json", "viewer").json()
    schema: schemathesis.BaseSchema = schemathesis.openapi.from_dict(document)
    for path in EXCLUDED:
        schema = schema.exclude(path=path)
    return schema


def test_routes_answer_as_described(api_schema: schemathesis.BaseSchema, served: Served) -> None:
    schema = api_schema.exclude(path_regex=IN_CHILD)
    assert find_failures(schema, served, CHECKS, role="admin", max_examples=60, min_routes=45) == {}


def test_slow_routes_answer_as_described(
    api_schema: schemathesis.BaseSchema, served: Served
) -> None:
    schema = api_schema.include(path_regex=IN_CHILD)
    assert find_failures(schema, served, CHECKS, role="admin", max_examples=4, min_routes=5) == {}
