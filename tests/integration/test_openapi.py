"""Requests made from the OpenAPI document: no server error, and answers as it describes them."""

from collections.abc import Iterator

import hypothesis
import pytest
import schemathesis
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.api_data import RULES, WORKSPACE, fill
from tests.served import Served, serve

pytestmark = pytest.mark.slow

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
# The first does not end, the second and third answer 503 without a live process.
EXCLUDED = ["/api/v1/live", "/-/reload", "/-/ready"]
# Each request starts a process.
IN_CHILD = r"/(rules/(check|diff|apply)|events/\{event\}/repeat|similarity/evaluation)$"


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


@pytest.fixture(scope="module")
def child_schema(api_schema: schemathesis.BaseSchema) -> schemathesis.BaseSchema:
    return api_schema.include(path_regex=IN_CHILD)


@pytest.fixture(scope="module")
def direct_schema(api_schema: schemathesis.BaseSchema) -> schemathesis.BaseSchema:
    return api_schema.exclude(path_regex=IN_CHILD)


direct = schemathesis.pytest.from_fixture("direct_schema")
in_child = schemathesis.pytest.from_fixture("child_schema")


def _call(case: schemathesis.Case, served: Served) -> None:
    headers = {"Authorization": f"Bearer {served.tokens['admin']}"}
    case.call_and_validate(base_url=served.url, headers=headers, checks=CHECKS, timeout=180)


@direct.parametrize()
@hypothesis.settings(max_examples=60, deadline=None)
def test_route_answers_as_described(case: schemathesis.Case, served: Served) -> None:
    _call(case, served)


@in_child.parametrize()
@hypothesis.settings(max_examples=5, deadline=None)
def test_slow_route_answers_as_described(case: schemathesis.Case, served: Served) -> None:
    _call(case, served)
