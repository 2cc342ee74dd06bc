"""What reads what, as nodes and links."""

from moirae.network import Graph, build_graph
from moirae.rules import Definition
from tests.network_data import write_rules
from tests.unit.moirae.rules.rule_files import read_rules


def make_graph(count: int = 2, group_size: int = 20) -> Graph:
    """The graph of the rules of `tests.network_data`."""
    rules = read_rules(write_rules(count, group_size)).rules
    definitions = [Definition(rule, {"host": "string"}, ("host",), ("host",)) for rule in rules]
    return build_graph(definitions, ["cpu", "net", "unread"], ["hosts"])


def test_queries_are_linked_with_what_they_read() -> None:
    graph = make_graph()
    links = {(link.source, link.target) for link in graph.links}
    assert links >= {
        ("stream:cpu", "rule:g0/Rule0"),
        ("stream:cpu", "derived:g0/load_0"),
        ("derived:g0/load_0", "rule:g0/Rule1"),
        ("rule:g0/Rule1", "context:g0/Rule1/others"),
        ("stream:net", "context:g0/Rule1/others"),
        ("rule:g0/Rule1", "recall:g0/Rule1/before"),
        ("stream:cpu", "recall:g0/Rule1/before"),
        ("context:g0/Rule1/others", "recall:g0/Rule1/similar"),
    }
    assert ("stream:cpu", "rule:g0/Rule1") not in links


def test_declared_tables_that_nothing_reads_are_nodes() -> None:
    graph = make_graph()
    assert graph.nodes["stream:unread"].kind == "stream"
    assert graph.nodes["relation:hosts"].kind == "relation"
