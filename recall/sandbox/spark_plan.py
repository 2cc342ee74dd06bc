"""Reading Spark's logical plans, which are trees of Java objects, through py4j."""

from collections.abc import Iterator
from typing import Any

from recall.errors import QueryRejected

# Nodes of one plan. A query that fills a page has some hundred.
_MAX_PLAN_NODES = 20_000


def walk_plan(root: Any, include_inner: bool = False, stop_at: str = "") -> Iterator[Any]:
    """A node of a plan or expression, and all nodes below it, depth first.

    `include_inner`: also nodes that are held besides the children, such as CTEs. `stop_at`: the
    name of a class below whose nodes nothing is visited. Raises `QueryRejected` for large trees.
    """
    stack = [root]
    count = 0
    while stack:
        node = stack.pop()
        yield node
        count += 1
        if count > _MAX_PLAN_NODES:
            raise QueryRejected(f"the plan of the query has more than {_MAX_PLAN_NODES} nodes")
        if class_name(node) == stop_at:
            continue
        stack.extend(iterate_scala(node.children()))
        if include_inner:
            stack.extend(iterate_scala(node.innerChildren()))


def expressions_of(plan: Any) -> Iterator[Any]:
    """The expressions of one node of a plan."""
    return iterate_scala(plan.expressions())


def class_name(node: Any) -> str:
    """The simple name of a node's class."""
    return str(node.getClass().getSimpleName())


def iterate_scala(sequence: Any) -> Iterator[Any]:
    """The elements of a Scala sequence."""
    for index in range(sequence.size()):
        yield sequence.apply(index)


def text_span(node: Any) -> tuple[int, int] | None:
    """Where in the query's text a node was written, as [start, stop); None: not known."""
    origin = node.origin()
    start = origin.startIndex().getOrElse(None)
    stop = origin.stopIndex().getOrElse(None)
    if start is None or stop is None:
        return None
    return start, stop + 1
