"""Roles by route."""

import pytest

from moirae.server.route_table import RouteAccess, RouteTable

TABLE = RouteTable(
    [
        RouteAccess("GET", "/api/v1/tokens", "admin"),
        RouteAccess("POST", "/api/v1/rules/check", "operator", has_json_body=True),
        RouteAccess("GET", "/api/v1/rules/{rule:path}", "viewer"),
        RouteAccess("POST", "/api/v1/alerts/{alert}/ack", "operator"),
    ]
)


@pytest.mark.parametrize(
    ("method", "path", "role"),
    [
        ("GET", "/-/healthy", None),
        ("HEAD", "/-/ready", None),
        ("POST", "/-/healthy", "admin"),
        ("GET", "/api/v1/tokens", "admin"),
        ("HEAD", "/api/v1/tokens", "admin"),
        ("GET", "/api/v1/rules/g/r", "viewer"),
        ("POST", "/api/v1/rules/check", "operator"),
        ("POST", "/api/v1/rules/other", "admin"),
        ("POST", "/api/v1/alerts/a/ack", "operator"),
        ("POST", "/api/v1/alerts/a/b/ack", "admin"),
        ("POST", "/api/v1/ingest/cpu", "source"),
        ("GET", "/unknown", "viewer"),
        ("DELETE", "/unknown", "admin"),
    ],
)
def test_route_needs_a_role(method: str, path: str, role: str | None) -> None:
    assert TABLE.find(method, path).role == role


def test_methods_of_a_path_are_listed() -> None:
    assert TABLE.list_methods("/api/v1/rules/check") == ["GET", "HEAD", "POST"]
    assert TABLE.list_methods("/api/v1/tokens") == ["GET", "HEAD"]
    assert TABLE.list_methods("/unknown") == []
