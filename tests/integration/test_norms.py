"""`GET /api/v1/norms`: answers as series."""

from collections.abc import Iterator

import pytest

from tests.api_data import RULES, WORKSPACE, fill
from tests.served import Served, serve_here

pytestmark = pytest.mark.services


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with serve_here(WORKSPACE, RULES) as running:
        fill(running.connection)
        yield running


def test_answers_of_alerts_are_series(served: Served) -> None:
    answer = served.ask("GET", "/api/v1/norms", role="viewer")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain")
    lines = answer.text.splitlines()
    assert 'moirae_alert_value{column="cpu",host="host0",rule="g/r"} 91.5' in lines
    assert 'moirae_alert_firing{host="host4",rule="g/r"} 1.0' in lines
    assert any(line.startswith('moirae_norm{column="') for line in lines)
    assert any(line.startswith("moirae_similar_best_score{") for line in lines)
    assert any(line.startswith("moirae_answer_final{") for line in lines)


def test_alerts_are_selected(served: Served) -> None:
    for query, expected in (("rule=r", True), ("rule=none", False), ("limit=1", True)):
        answer = served.ask("GET", f"/api/v1/norms?{query}", role="viewer")
        assert ("moirae_alert_value{" in answer.text) is expected
    newest = served.ask("GET", "/api/v1/norms?limit=1", role="viewer").text
    assert 'host="host4"' in newest and 'host="host0"' not in newest
    for query in ("last=soon", "limit=0"):
        assert served.ask("GET", f"/api/v1/norms?{query}", role="viewer").status_code == 400
    assert served.ask("GET", "/api/v1/norms", role=None).status_code == 401
    assert served.ask("GET", "/api/v1/norms", role="source").status_code == 403


def test_scraper_may_ask_for_openmetrics(served: Served) -> None:
    headers = {"Accept": "application/openmetrics-text; version=1.0.0"}
    answer = served.ask("GET", "/api/v1/norms", role="viewer", headers=headers)
    assert answer.headers["content-type"].startswith("application/openmetrics-text")
    assert answer.text.endswith("# EOF\n")
