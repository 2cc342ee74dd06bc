"""Samples read by Prometheus's API."""

from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs

import httpx
import orjson
import pytest

from moirae.errors import MoiraeError, TooManySamples, UsageError
from moirae.imports.prometheus_api import Credentials, PrometheusApi

_URL = "http://prometheus:9090"


def _open(answer: Callable[[httpx.Request], httpx.Response], **options: Any) -> PrometheusApi:
    return PrometheusApi(_URL, transport=httpx.MockTransport(answer), **options)


def _answer_matrix(*series: dict[str, Any]) -> Callable[[httpx.Request], httpx.Response]:
    data = {"resultType": "matrix", "result": series}
    return lambda _: httpx.Response(200, content=orjson.dumps({"status": "success", "data": data}))


def test_samples_are_those_after_the_start_up_to_the_end() -> None:
    answer = _answer_matrix(
        {
            "metric": {"instance": "a", "__name__": "up"},
            "values": [[1.0, "1"], [1.001, "+Inf"], [2.0, "NaN"], [2.001, "7"]],
            "histograms": [[2.0, {}]],
        }
    )
    (series,) = _open(answer).read_samples("up", 1_000, 2_000)
    assert series.labels == (("__name__", "up"), ("instance", "a"))
    assert [milliseconds for _, milliseconds in series.samples] == [1_001, 2_000]
    assert series.samples[0][0] == float("inf")
    assert series.histograms == 1


def test_query_asks_for_stored_samples() -> None:
    requests: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        requests.append(request)
        return _answer_matrix()(request)

    _open(answer, login=Credentials("word", "ada")).read_samples('{job="a"}', 1_000, 61_005)
    _open(answer, login=Credentials("token")).read_samples("up", 0, 1)
    form = parse_qs(requests[0].content.decode())
    assert form == {"query": ['{job="a"}[60005ms]'], "time": ["61.005"]}
    assert requests[0].headers["authorization"].startswith("Basic ")
    assert requests[1].headers["authorization"] == "Bearer token"


@pytest.mark.parametrize("status", [422, 503])
def test_too_many_samples_are_said(status: int) -> None:
    body = {"status": "error", "error": "query processing would load too many samples"}
    with pytest.raises(TooManySamples, match="too many samples"):
        _open(lambda _: httpx.Response(status, json=body)).read_samples("up", 0, 1)


@pytest.mark.parametrize(
    ("status", "content", "message"),
    [
        (400, b'{"status":"error","error":"parse error"}', "parse error"),
        (200, b'{"status":"success","data":{"result":[{}]}}', "status 200"),
        (302, b"moved", "status 302"),
        (401, b"Unauthorized", "Unauthorized"),
    ],
)
def test_other_answers_are_errors(status: int, content: bytes, message: str) -> None:
    with pytest.raises(MoiraeError, match=message):
        _open(lambda _: httpx.Response(status, content=content)).read_samples("up", 0, 1)


def test_server_that_does_not_answer_is_an_error() -> None:
    def refuse(_: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("connection refused")

    with pytest.raises(MoiraeError, match="connection refused"):
        _open(refuse).read_samples("up", 0, 1)


@pytest.mark.parametrize("url", ["prometheus:9090", "ftp://a", "http://user:word@a"])
def test_other_addresses_are_refused(url: str) -> None:
    with pytest.raises(UsageError):
        PrometheusApi(url)


@pytest.mark.parametrize(
    ("text", "labels", "changes"),
    [
        ("global: {}", {}, False),
        ("global: {external_labels: {cluster: a}}", {"cluster": "a"}, False),
        ("remote_write: [{url: x, write_relabel_configs: [{action: keep}]}]", {}, False),
        ("remote_write: [{url: x, write_relabel_configs: [{target_label: x}]}]", {}, True),
    ],
)
def test_external_labels_are_read(text: str, labels: dict[str, str], changes: bool) -> None:
    body = {"status": "success", "data": {"yaml": text}}
    config = _open(lambda _: httpx.Response(200, json=body)).read_remote_write_config()
    assert config == (labels, changes)


@pytest.mark.parametrize(
    ("status", "content"), [(404, b"{}"), (200, b"<html>"), (200, b'{"data": {"yaml": "- ["}}')]
)
def test_configuration_may_be_hidden(status: int, content: bytes) -> None:
    api = _open(lambda _: httpx.Response(status, content=content))
    assert api.read_remote_write_config() is None
