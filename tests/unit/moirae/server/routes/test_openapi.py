"""Headers of changes in the OpenAPI document."""

from typing import Any

import pytest

from moirae.server import build_openapi_document


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    return build_openapi_document()


def _headers(operation: dict[str, Any]) -> set[str]:
    return {entry["name"] for entry in operation.get("parameters", ()) if entry["in"] == "header"}


@pytest.mark.parametrize(
    ("method", "path", "headers"),
    [
        ("post", "/api/v1/alerts/{alert}/ack", {"Idempotency-Key", "X-CSRF-Token"}),
        ("post", "/api/v1/ingest/{stream}", {"Idempotency-Key", "X-CSRF-Token"}),
        ("delete", "/api/v1/tokens/{name}", {"Idempotency-Key", "X-CSRF-Token"}),
        ("post", "/api/v1/rules/check", {"X-CSRF-Token"}),  # changes nothing
        ("post", "/api/v1/streams/{stream}/files", {"X-CSRF-Token"}),
        ("post", "/api/v1/sessions", set()),
        ("get", "/api/v1/alerts", set()),
    ],
)
def test_headers_of_changes_are_documented(
    document: dict[str, Any], method: str, path: str, headers: set[str]
) -> None:
    assert _headers(document["paths"][path][method]) == headers


def test_parameters_of_operations_stay_documented(document: dict[str, Any]) -> None:
    (name,) = (
        entry["name"]
        for entry in document["paths"]["/api/v1/tokens/{name}"]["delete"]["parameters"]
        if entry["in"] == "path"
    )
    assert name == "name"
    parameters = document["paths"]["/api/v1/events/{event}/timeline"]["get"]["parameters"]
    before = next(entry["schema"] for entry in parameters if entry["name"] == "before")
    number, duration = before["anyOf"]
    assert (number["minimum"], duration["type"], before["default"]) == (60, "string", 3600)
