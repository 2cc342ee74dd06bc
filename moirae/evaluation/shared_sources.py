"""Subqueries in FROM that several queries of one statement have in common. No I/O.

Derived streams are such subqueries. Each is read as a view, which is computed once.
"""

from collections import Counter
from collections.abc import Iterator

from sqlglot import exp

from recall.query import clauses_of


class SharedSources:
    """First all queries of a statement are added, then each is rewritten.

    `views`: the SQL of shared subqueries by the name of their view, in the order in which they can
    be created.
    """

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._name_by_sql: dict[str, str] = {}
        self.views: dict[str, str] = {}

    def add(self, query: exp.Expr) -> None:
        """Count the subqueries of a query; those inside of equal ones count once."""
        for subquery in _closed_subqueries(query):
            sql = _inner_sql(subquery)
            self._counts[sql] += 1
            if self._counts[sql] == 1:
                self.add(subquery.this)

    def add_source(self, source: exp.Subquery) -> None:
        """As `add`, for a query of which only the source is given."""
        self.add(_select_from(source))

    def rewrite(self, query: exp.Query) -> exp.Query:
        """The query over views of shared subqueries. The original does not change."""
        if max(self._counts.values(), default=0) < 2:
            return query
        copy = query.copy()
        self._rewrite_in_place(copy)
        return copy

    def rewrite_source(self, source: exp.Subquery) -> str | None:
        """What to read instead of a source; None if it has no shared part.

        The name of its view, or the subquery over views.
        """
        query = _select_from(source)
        original = query.args["from_"].this
        rewritten = self.rewrite(query).args["from_"].this
        if rewritten == original:
            return None
        rewritten.set("alias", None)
        sql: str = rewritten.sql(dialect="spark")
        return sql

    def _create_view(self, sql: str, rewritten_sql: str) -> None:
        name = f"shared_{len(self._name_by_sql)}"
        self._name_by_sql[sql] = name
        self.views[name] = rewritten_sql

    def _rewrite_in_place(self, query: exp.Expr) -> None:
        for subquery in list(_closed_subqueries(query)):
            sql = _inner_sql(subquery)
            if sql not in self._name_by_sql:
                # Views of subqueries inside of this one are created before its own.
                self._rewrite_in_place(subquery.this)
                if self._counts[sql] < 2:
                    continue
                self._create_view(sql, _inner_sql(subquery))
            table = exp.to_table(self._name_by_sql[sql])
            table.set("alias", subquery.args.get("alias"))
            subquery.replace(table)


def _select_from(source: exp.Subquery) -> exp.Select:
    return exp.Select(expressions=[exp.Star()], from_=exp.From(this=source.copy()))


def _inner_sql(subquery: exp.Subquery) -> str:
    sql: str = subquery.this.sql(dialect="spark")
    return sql


def _closed_subqueries(query: exp.Expr) -> Iterator[exp.Subquery]:
    """The outermost subqueries in FROM and JOIN that read no CTE from outside."""
    cte_names = _cte_names(query)
    for node in query.walk(prune=_is_source):
        if isinstance(node, exp.Subquery) and _is_source(node):
            outer_names = cte_names - _cte_names(node)
            if not any(table.name.lower() in outer_names for table in node.find_all(exp.Table)):
                yield node


def _cte_names(node: exp.Expr) -> Counter[str]:
    """The names of the CTEs of a query and of the queries inside it, how often each is defined."""
    return Counter(cte.alias.lower() for cte in node.find_all(exp.CTE))


def _is_source(node: exp.Expr) -> bool:
    if not isinstance(node, exp.Subquery) or not isinstance(node.parent, exp.From | exp.Join):
        return False
    return clauses_of(node) <= {"this", "alias"}
