"""The rule gate: SQL that people write is code, and what may run is decided on Spark's own plans, by lists of what is
allowed (`recall.sandbox.allowlist`).

In this order: the query is parsed, and anything that is no plain query is refused before a name of it is looked up
(looking up is not harmless: `EXECUTE IMMEDIATE` runs then). It is analysed in a session that holds only the views it
may read. Every node, every function and every leaf of the analysed plan must be allowed.
"""

import os
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from archiver.spark import jvm_process
from recall.errors import QueryRejected
from recall.sandbox.allowlist import (
    ANALYSED_NODES,
    DROPPED_FUNCTIONS,
    EXPRESSIONS,
    FORBIDDEN_PARTS,
    INTERNAL_EXPRESSIONS,
    INTERNAL_NODES,
    INTERNAL_UNORDERED_AGGREGATES,
    PARSED_NODES,
)

# Parts of a plan. A query of a page has some hundred.
_MAX_PLAN_NODES = 20_000
# Seconds of the processor for one query, as Spark evaluates some constants while it analyses; so many times as long may
# it take by the clock, as a busy machine makes no query slow; between two looks. How nice what takes longer becomes.
_CPU_LIMIT, _WALL_CLOCK_FACTOR, _POLL_INTERVAL, _LOWEST_NICENESS = 20.0, 10.0, 0.1, 19
_THREAD_NUMBERS = count()

_COMPARISONS = frozenset(
    "EqualTo EqualNullSafe LessThan LessThanOrEqual GreaterThan GreaterThanOrEqual In".split()
)
_NUMERIC_TYPES = ("double", "float", "integer", "long", "short", "byte", "decimal")

# What is raised when there is no Spark any more, which is no fault of what was asked.
SPARK_LOST = (Py4JNetworkError, ConnectionError)

_T = TypeVar("_T")


@dataclass(frozen=True)
class Allowlist:
    """What an analysed query may be made of. `unordered`: aggregates whose answer hangs on the order of rows."""

    nodes: frozenset[str] = ANALYSED_NODES
    expressions: frozenset[str] = EXPRESSIONS
    unordered: frozenset[str] = frozenset()


def harden_session(session: SparkSession) -> SparkSession:
    """A session without functions that run Java by its name. Each new session has them again."""
    session.conf.set("spark.sql.runSQLOnFiles", "false")
    session.conf.set("spark.sql.variable.substitute", "false")
    session.conf.set("spark.sql.scripting.enabled", "false")
    state = session._jsparkSession.sessionState()
    java: Any = session._jvm
    some, identifier = java.scala.Some, java.org.apache.spark.sql.catalyst.FunctionIdentifier
    for name in DROPPED_FUNCTIONS:
        state.functionRegistry().dropFunction(identifier(name, some("builtin"), some("system")))
    return session


def validate_query(session: SparkSession, sql: str, internal: bool = False) -> StructType:
    """The columns of a query, in a `guarded` session whose views are all it may read. Raises `Refusal`; runs nothing.

    `own`: a query that was made of one that passed, with windows of rows that only we use.
    """
    allowed = (
        Allowlist(
            ANALYSED_NODES | INTERNAL_NODES,
            EXPRESSIONS | INTERNAL_EXPRESSIONS,
            INTERNAL_UNORDERED_AGGREGATES,
        )
        if internal
        else Allowlist()
    )

    def judged() -> StructType:
        _check_parsed(session._jsparkSession.sessionState().sqlParser().parsePlan(sql), internal)
        frame = session.sql(sql)
        _check_analysed(frame._jdf.queryExecution().analyzed(), allowed)
        if not internal:
            _check_comparisons(frame._jdf.queryExecution().analyzed(), _user_cast_tag(session), sql)
        return frame.schema

    try:
        return _run_with_limit(_CPU_LIMIT, judged, session)
    except PySparkException as error:
        raise _to_rejection(error, sql) from error
    except SPARK_LOST:
        raise
    except Py4JError as error:
        raise QueryRejected(f"Spark cannot understand it: {_describe_java_error(error)}") from error


def _check_parsed(root: Any, own: bool) -> None:
    for plan in walk_plan(root, include_inner=True):
        name = class_name(plan)
        if name not in PARSED_NODES and not (own and name in INTERNAL_NODES):
            raise QueryRejected(f"{_display_name(name)} is not allowed in a query")
        for expression in iterate_scala(plan.expressions()):
            for part in walk_plan(expression):
                name = class_name(part)
                if name == "UnresolvedFunction" and _function_name(part) in DROPPED_FUNCTIONS:
                    raise QueryRejected(f"{_function_name(part)} is not allowed in a query")
                if name in FORBIDDEN_PARTS:
                    raise QueryRejected(f"{_display_name(name)} is not allowed in a query")


def _user_cast_tag(session: SparkSession) -> Any:
    """The tag of a CAST that somebody wrote."""
    java: Any = session._jvm
    return java.org.apache.spark.sql.catalyst.expressions.Cast.USER_SPECIFIED_CAST()


def _check_analysed(root: Any, allowed: Allowlist) -> None:
    for plan in walk_plan(root, stop_at="View"):
        name = class_name(plan)
        if name not in allowed.nodes or (name == "View" and not plan.isTempView()):
            raise QueryRejected(f"{_display_name(name)} is not allowed in a query")
        for expression in iterate_scala(plan.expressions()):
            _check_expression(expression, allowed)


def _check_expression(expression: Any, allowed: Allowlist) -> None:
    if not expression.deterministic():
        for node in walk_plan(expression):
            first = not node.deterministic() and all(
                child.deterministic() for child in iterate_scala(node.children())
            )
            if first and class_name(node) not in allowed.unordered:
                raise QueryRejected(
                    f"{node.prettyName()}() gives another answer each time; live and history must agree"
                )
    for node in walk_plan(expression):
        if class_name(node) not in allowed.expressions:
            raise QueryRejected(f"{node.prettyName()} is not allowed in a query")


def _check_comparisons(root: Any, written: Any, sql: str) -> None:
    """Refuses what compares a number with a text that is none, which fails as soon as it is computed."""
    expressions = [
        one for plan in walk_plan(root, stop_at="View") for one in iterate_scala(plan.expressions())
    ]
    for node in (part for expression in expressions for part in walk_plan(expression)):
        for side in iterate_scala(node.children()) if class_name(node) in _COMPARISONS else ():
            if class_name(side) != "Cast" or side.getTagValue(written).isDefined():
                continue
            text = side.child()
            kinds = text.dataType().typeName(), side.dataType().typeName()
            if kinds[0] != "string" or not kinds[1].startswith(_NUMERIC_TYPES):
                continue
            if class_name(text) == "Literal" and is_number(str(text.value())):
                continue
            start, stop = (
                getattr(node.origin(), end)().getOrElse(None) for end in ("startIndex", "stopIndex")
            )
            place = (1, 1) if start is None else _line_and_column(sql, start)
            fragment = "" if start is None or stop is None else sql[start : stop + 1]
            raise QueryRejected(
                f"compares a number with text: {fragment or node.sql()}", *place, fragment
            )


def is_number(text: str) -> bool:
    """Whether a text may be compared with numbers."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def walk_plan(root: Any, include_inner: bool = False, stop_at: str = "") -> Iterator[Any]:
    """A node and all below it. `inner`: what it holds beside its children too; nothing below a `leaf` is looked at."""
    waiting, count = [root], 0
    while waiting:
        node = waiting.pop()
        yield node
        count += 1
        if count > _MAX_PLAN_NODES:
            raise QueryRejected(f"a query of more than {_MAX_PLAN_NODES} parts")
        if class_name(node) != stop_at:
            waiting += iterate_scala(node.children())
            if include_inner:
                waiting += iterate_scala(node.innerChildren())


def _function_name(function: Any) -> str:
    return str(function.nameParts().last()).lower()


def class_name(node: Any) -> str:
    """The name of the class of a part of a plan."""
    return str(node.getClass().getSimpleName())


def _display_name(name: str) -> str:
    return name.removeprefix("Unresolved").removesuffix("$")


def iterate_scala(sequence: Any) -> Iterator[Any]:
    """The elements of a sequence of Scala's."""
    for index in range(sequence.size()):
        yield sequence.apply(index)


def _run_with_limit(seconds: float, work: Callable[[], _T], session: SparkSession) -> _T:
    """What `work` returns or raises; `Refusal` where it takes longer. Nothing can end it then: it is left behind, and
    gets what of the processor nobody else wants."""
    found: list[_T] = []
    raised: list[BaseException] = []
    name = f"gate {next(_THREAD_NUMBERS)}"
    java: Any = session._jvm

    def run() -> None:
        try:
            java.java.lang.Thread.currentThread().setName(name)
            found.append(work())
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run, daemon=True, name=name)
    began = time.monotonic()
    thread.start()
    thread.join(min(_POLL_INTERVAL, seconds))
    while thread.is_alive():
        used, passed = _cpu_seconds(name), time.monotonic() - began
        if (passed if used is None else max(used, passed / _WALL_CLOCK_FACTOR)) >= seconds:
            _lower_priority(name)
            raise QueryRejected(f"takes more than {seconds:.0f} s to be understood")
        thread.join(_POLL_INTERVAL)
    if raised:
        raise raised[0]
    return found[0]


def _find_jvm_thread(name: str) -> Path | None:
    """Where Linux tells of the thread of the JVM that stands for one of ours."""
    process = jvm_process()
    for task in Path(f"/proc/{process.pid if process else 0}/task").glob("*"):
        with suppress(OSError):  # others come and go
            if (task / "comm").read_text().strip() == name:
                return task
    return None


def _cpu_seconds(name: str) -> float | None:
    """Seconds of the processor that it has used, none before it is known; None where the system does not tell."""
    process = jvm_process()
    if process is None or not Path(f"/proc/{process.pid}/task").is_dir():
        return None
    task = _find_jvm_thread(name)
    with suppress(OSError):
        if task is not None:
            user, system = (task / "stat").read_text().rpartition(")")[2].split()[11:13]
            return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")
    return 0.0


def _lower_priority(name: str) -> None:
    """It gives way to all others, where threads can."""
    task = _find_jvm_thread(name)
    if task is not None:
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, int(task.name), _LOWEST_NICENESS)


def _to_rejection(error: PySparkException, sql: str) -> QueryRejected:
    message = (error.getMessage() if isinstance(error, AnalysisException) else str(error)) or str(
        error
    )
    first = message.strip().splitlines()[0].split(" SQLSTATE:")[0]
    contexts = error.getQueryContext() if isinstance(error, AnalysisException) else []
    if contexts:
        start, stop = contexts[0].startIndex(), contexts[0].stopIndex()
        return QueryRejected(first, *_line_and_column(sql, start), sql[start : stop + 1])
    if isinstance(error, ParseException):
        return QueryRejected(first, *_parse_error_position(str(error)))
    return QueryRejected(first)


def _describe_java_error(error: Py4JError) -> str:
    """What Java threw, in one line."""
    java = getattr(error, "java_exception", None)
    return str(error if java is None else java.getClass().getSimpleName()).strip().splitlines()[0]


def _line_and_column(sql: str, offset: int) -> tuple[int, int]:
    before = sql[: max(offset, 0)]
    return before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1


def _parse_error_position(message: str) -> tuple[int, int]:
    found = re.search(r"\(line (\d+), pos (\d+)\)", message)
    return (int(found[1]), int(found[2]) + 1) if found else (1, 1)
