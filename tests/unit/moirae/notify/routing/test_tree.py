"""Routes: the first that matches, with what it inherits."""

from datetime import timedelta

from moirae.notify.routing.tree import find_routes, walk_tree
from tests.unit.moirae.notify.builders import make_tree


def find_receivers(tree, **labels: str) -> list[str]:  # type: ignore[no-untyped-def]
    return [node.options.receiver for node in find_routes(tree, labels)]


def test_first_matching_route_applies_unless_it_continues() -> None:
    tree = make_tree(
        {"match": {"a": "1"}, "receiver": "first", "continue": True},
        {"matchers": ['a=~"1|2"'], "receiver": "second"},
        {"receiver": "last"},
    )
    assert find_receivers(tree, a="1") == ["first", "second"]
    assert find_receivers(tree, a="2") == ["second"]
    assert find_receivers(tree) == ["last"]


def test_alert_without_a_route_is_not_sent() -> None:
    assert find_receivers(make_tree({"match": {"a": "1"}, "receiver": "r"}), a="2") == []


def test_nested_routes_are_tried_first_and_inherit() -> None:
    tree = make_tree(
        {
            "receiver": "outer",
            "group_by": ["a"],
            "group_wait": "5s",
            "routes": [
                {"match": {"b": "1"}, "group_by": ["..."]},
                {"match": {"b": "2"}, "receiver": "inner", "repeat_interval": "1h"},
            ],
        }
    )
    assert find_receivers(tree, b="1") == ["outer"]
    assert find_receivers(tree, b="2") == ["inner"]
    assert find_receivers(tree, b="3") == ["outer"]
    _, (_, all_labels), (_, inner) = walk_tree(tree)
    assert all_labels.options.group_by is None
    assert inner.options.group_wait == timedelta(seconds=5)
    assert inner.options.group_interval == timedelta(minutes=5)
    assert inner.key == '{}/{}/{b="2"}'


def test_equal_routes_are_told_apart() -> None:
    tree = make_tree({"receiver": "r", "continue": True}, {"receiver": "r"})
    ids = [node.id for _, node in walk_tree(tree)]
    assert len(set(ids)) == 2


def test_alerts_of_a_route_that_discards_are_not_sent() -> None:
    root = make_tree(
        {
            "discard": True,
            "matchers": ['alertname="Watchdog"'],
            "routes": [
                {"receiver": "pager", "matchers": ['severity="page"']},
                {"matchers": ['a="b"']},
            ],
        },
        {"receiver": "ops"},
    )
    watchdog = {"alertname": "Watchdog"}
    assert find_routes(root, watchdog) == []
    assert find_routes(root, {**watchdog, "a": "b"}) == []
    (node,) = find_routes(root, {**watchdog, "severity": "page"})
    assert node.options.receiver == "pager"
