"""`moirae import prometheus`."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import httpx
import orjson
import pytest
from typer.testing import CliRunner, Result

from moirae.cli import app
from moirae.runtime.storage.landing_folder import LandingFolder

_WORKSPACE = """
home: home
streams:
  node:
    columns: {ts: timestamp, metric: string, value: double}
    time: ts
    source: {remote_write: true, match: up}
"""
_CONFIG = "global: {external_labels: {site: north}}"

Run = Callable[..., Result]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs the command; Prometheus has one sample of the first second of 2026."""
    (tmp_path / "moirae.yaml").write_text(_WORKSPACE)

    def answer(request: httpx.Request) -> httpx.Response:
        data: dict[str, object] = {"yaml": _CONFIG}
        if request.url.path.endswith("/query"):
            values = [[1767225600.5, "1"]]
            data = {"result": [{"metric": {"__name__": "up"}, "values": values}]}
        return httpx.Response(200, content=orjson.dumps({"status": "success", "data": data}))

    client = partial(httpx.Client, transport=httpx.MockTransport(answer))

    def open_client(**options: object) -> httpx.Client:
        options.pop("transport")
        return client(**options)  # type: ignore[arg-type]

    monkeypatch.setattr("moirae.imports.prometheus_api.httpx.Client", open_client)

    def run_command(*options: str) -> Result:
        workspace = ["--workspace", str(tmp_path / "moirae.yaml")]
        address = "http://prometheus:9090"
        return CliRunner().invoke(app, ["import", "prometheus", address, *options, *workspace])

    return run_command


def test_samples_are_queued_with_external_labels(run: Run, tmp_path: Path) -> None:
    arguments = ("--from", "2026-01-01T00:00Z", "--to", "2026-01-01T01:00Z")
    result = run(*arguments)
    assert (result.exit_code, result.output) == (0, "queued for node: 1 row\n")
    (batch,) = LandingFolder(tmp_path / "home", "node").pending_batches()
    assert orjson.loads(batch.path.read_bytes())["site"] == "north"
    again = run(*arguments)
    assert "nothing to import" in again.output


def test_labels_may_be_given(run: Run, tmp_path: Path) -> None:
    arguments = ("--from", "2026-01-01T00:00Z", "--to", "2026-01-01T01:00Z", "-o", "json")
    result = run(*arguments, "--label", "site=south")
    assert orjson.loads(result.output)["rows"] == {"node": 1}
    (batch,) = LandingFolder(tmp_path / "home", "node").pending_batches()
    assert orjson.loads(batch.path.read_bytes())["site"] == "south"


@pytest.mark.parametrize(
    "options",
    [
        ("--from", "soon"),
        ("--from", "2026-01-01", "--to", "2025-01-01"),
        ("--from", "1h", "--username", "ada"),
        ("--from", "1h", "--label", "x"),
        ("--from", "1h", "--credentials", "/nowhere"),
    ],
)
def test_invalid_options_are_refused(run: Run, options: tuple[str, ...]) -> None:
    result = run(*options)
    assert result.exit_code != 0 and result.exception is not None
