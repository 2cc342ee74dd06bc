"""The Grafana dashboard and its data sources: each query is executed or parsed."""

import json
import re
from collections.abc import Iterator
from itertools import combinations
from typing import Any

import promql_parser
import psycopg
import pytest
import sqlglot
from psycopg.conninfo import make_conninfo

from moirae.inspect import make_norm_metrics
from tests import api_data
from tests.deploy import DEPLOY, read_yaml
from tests.deploy.conftest import PASSWORD

FOLDER = DEPLOY / "grafana"
DASHBOARD = json.loads((FOLDER / "dashboards" / "moirae.json").read_text())
PANELS = DASHBOARD["panels"]
HISTORY = json.loads((FOLDER / "dashboards" / "history.json").read_text())
# Values of the variables of that dashboard.
VARIABLES = {
    **dict.fromkeys(("rule", "recall", "mean", "sd", "value"), "x"),
    "where": "",
    "width": "3",
    "series": 'moirae_alert_value{rule="x",column="x",}',
}
SOURCES = read_yaml(FOLDER / "provisioning" / "datasources" / "moirae.yaml")["datasources"]
VIEWS = {"alerts", "recalls", "similar_events", "streams", "chunks"}


def _queries() -> Iterator[tuple[str, str]]:
    """Title and SQL of each panel, of the list of alerts, and of annotations."""
    for panel in PANELS:
        for target in panel.get("targets", []):
            if "rawSql" in target:
                yield panel["title"], target["rawSql"]
    (variable,) = DASHBOARD["templating"]["list"]
    yield "Alert", variable["query"]
    (annotation,) = DASHBOARD["annotations"]["list"]
    yield "Annotations", annotation["target"]["rawSql"]


QUERIES = list(_queries())


def _expressions(panels: list[Any]) -> list[tuple[str, str]]:
    """Title and PromQL of each query."""
    return [
        (panel["title"], target["expr"])
        for panel in panels
        for target in panel.get("targets", [])
        if "expr" in target
    ]


EXPRESSIONS = _expressions(PANELS)
ANNOTATIONS = [DASHBOARD["annotations"]["list"][0], HISTORY["annotations"]["list"][0]]


@pytest.fixture(scope="module")
def grafana(database: str) -> Iterator[psycopg.Connection[Any]]:
    """A connection as the role `grafana`."""
    dsn = make_conninfo(database, user="grafana", password=PASSWORD)
    with psycopg.connect(dsn, autocommit=True) as connection:
        yield connection


def expand(query: str, event: str) -> str:
    """A query as Grafana sends it, with its variable and macros replaced."""
    query = query.replace("${event:sqlstring}", f"'{event}'")
    query = re.sub(
        r"\$__timeFilter\((\w+)\)",
        r"\1 BETWEEN '2025-12-31T00:00:00Z' AND '2026-01-02T00:00:00Z'",
        query,
    )
    assert "$" not in query, query
    return query


@pytest.mark.parametrize(("title", "query"), QUERIES, ids=[title for title, _ in QUERIES])
def test_query_of_a_panel_runs_with_and_without_an_alert(
    grafana: psycopg.Connection[Any], title: str, query: str
) -> None:
    last_event = str(api_data.event_id(api_data.COUNT - 1))
    rows = grafana.execute(expand(query, last_event)).fetchall()
    if title != "Chunks":  # the data has none
        assert rows, title
    grafana.execute(expand(query, ""))


def test_panel_shows_similar_past_events_of_the_selected_alert(
    grafana: psycopg.Connection[Any],
) -> None:
    (query,) = [query for title, query in QUERIES if title == "Similar past events"]
    last_event = str(api_data.event_id(api_data.COUNT - 1))
    cursor = grafana.execute(expand(query, last_event))
    assert [column.name for column in cursor.description or []] == [
        *("rank", "score", "when", "summary", "shared terms", "what fixed it", "tag")
    ]
    (hit,) = cursor.fetchall()
    assert hit[:2] == (1, 0.75)
    assert hit[3] == "host0 is <b>hot</b>"
    first_event = str(api_data.event_id(0))
    assert grafana.execute(expand(query, first_event)).fetchall() == []


def test_role_reads_the_views_and_nothing_else(grafana: psycopg.Connection[Any]) -> None:
    for table in ("alerts", "tokens", "contexts", "schema_migrations"):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            grafana.execute(f"SELECT * FROM public.{table}")
    with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
        grafana.execute("CREATE TEMP TABLE copies (id integer)")
    for view in VIEWS:
        grafana.execute(f"SELECT * FROM dashboard.{view}")


def test_queries_read_documented_views_only_and_all_of_them() -> None:
    used = set()
    for _, query in QUERIES:
        statement = sqlglot.parse_one(expand(query, ""), read="postgres")
        used |= {(table.db, table.name) for table in statement.find_all(sqlglot.exp.Table)}
    assert used == {("dashboard", view) for view in VIEWS}


@pytest.mark.parametrize(
    ("title", "expression"),
    [
        *EXPRESSIONS,
        *_expressions(HISTORY["panels"]),
        *((annotation["name"], annotation["expr"]) for annotation in ANNOTATIONS[1:]),
    ],
)
def test_expression_of_a_panel_is_valid(title: str, expression: str) -> None:
    expression = expression.replace("$__rate_interval", "1m")
    for name, value in VARIABLES.items():
        expression = expression.replace(f"${name}", value)
    promql_parser.parse(expression)


def test_variables_of_the_history_are_all_used_and_declared() -> None:
    declared = {variable["name"] for variable in HISTORY["templating"]["list"]}
    assert declared == VARIABLES.keys()
    text = json.dumps(HISTORY)
    assert set(re.findall(r"\$(\w+)", text)) == declared


def test_history_reads_series_that_the_server_has() -> None:
    read = set(re.findall(r"moirae_\w+", json.dumps(HISTORY)))
    assert read < {metric.name for metric in make_norm_metrics([])}


def test_panels_use_provisioned_data_sources() -> None:
    types = {source["uid"]: source["type"] for source in SOURCES}
    for panel in [*PANELS, *HISTORY["panels"]]:
        for target in panel.get("targets", []):
            assert types[target["datasource"]["uid"]] == target["datasource"]["type"]
    for annotation in ANNOTATIONS:
        assert types[annotation["datasource"]["uid"]] == annotation["datasource"]["type"]
    assert len(types) == 2


@pytest.mark.parametrize("panels", [PANELS, HISTORY["panels"]], ids=["moirae", "history"])
def test_panels_do_not_overlap_and_have_numbers_of_their_own(panels: list[Any]) -> None:
    numbers = [panel["id"] for panel in panels]
    assert len(set(numbers)) == len(numbers)
    cells = {panel["id"]: _cells(panel["gridPos"]) for panel in panels}
    for first, second in combinations(cells.values(), 2):
        assert not first & second
    assert max(x for positions in cells.values() for x, _ in positions) == 23


def _cells(position: dict[str, int]) -> set[tuple[int, int]]:
    columns = range(position["x"], position["x"] + position["w"])
    rows = range(position["y"], position["y"] + position["h"])
    return {(x, y) for x in columns for y in rows}


def test_data_sources_have_no_password_and_compose_sets_their_variables() -> None:
    text = (FOLDER / "provisioning" / "datasources" / "moirae.yaml").read_text()
    variables = set(re.findall(r"\$(\w+)", text))
    grafana = read_yaml(DEPLOY / "compose" / "compose.yaml")["services"]["grafana"]
    assert variables <= grafana["environment"].keys()
    assert SOURCES[0]["secureJsonData"] == {"password": "$GRAFANA_DATABASE_PASSWORD"}
