"""What queries of a rule name of the coverage of its recalls' answers."""

from moirae.rules.answer_coverage import available_coverage, find_named_coverage
from moirae.rules.definition import Definition
from moirae.rules.model import AlertSpec
from moirae.rules.rule_set import Rule
from recall.query import Tables, parse

TABLES = Tables({"load": "ts"})
RECALLS = {
    "norm": {"sql": "SELECT l.host, count(*) AS n, max(l.cpu) AS top FROM load l GROUP BY l.host"},
    "last": {"sql": "SELECT l.cpu AS final FROM load l LIMIT 3"},
    "alike": {"similar": {"k": 2}},
}
RECALL_COLUMNS = {
    "norm": {"host": "string", "n": "bigint", "top": "double"},
    "last": {"final": "double"},
}


def make_definition() -> Definition:
    spec = AlertSpec.model_validate(
        {
            "alert": "A",
            "expr": "SELECT host, ts FROM load",
            "context": {"light": {"sql": "SELECT host FROM load", "within": "1m"}},
            "recall": RECALLS,
        }
    )
    types = {"host": "string"}
    return Definition(Rule("g", spec), types, ("host",), ("host",), RECALL_COLUMNS)


def available(name: str) -> set[str]:
    return set(available_coverage(name, make_definition(), TABLES))


def test_counts_alone_have_estimates() -> None:
    common = {"coverage", "covered_from", "covered_to", "final"}
    assert available("norm") == common | {"n_estimate", "n_low", "n_high"}
    assert available("alike") == common
    assert available("last") == common - {"final"}, "a column of the answer hides it"


def test_columns_are_found_in_the_recalls_that_a_query_reads() -> None:
    query = parse("SELECT n.n_low, n.top, l.final, l.coverage FROM norm n CROSS JOIN last l")
    named = find_named_coverage(query, ["norm", "last"], make_definition(), TABLES)
    assert named == {"norm": {"n_low": "double"}, "last": {"coverage": "double"}}
