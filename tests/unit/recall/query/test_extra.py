from recall.query.extra import exclude_extra, excludes_only_extra, reveal_extra
from recall.query.parsing import parse

VIEWS = {"cpu": "_with_extra_cpu", "net": "_with_extra_net"}


def exclude(sql: str, *aliases: str) -> str:
    query = parse(sql)
    exclude_extra(query, aliases)  # type: ignore[arg-type]
    return query.sql(dialect="spark")


def test_star_does_not_include_undeclared_fields() -> None:
    assert exclude("SELECT * FROM cpu", "cpu") == "SELECT * EXCEPT (_extra) FROM cpu"
    assert exclude("SELECT c.*, _extra FROM cpu c", "c") == (
        "SELECT c.* EXCEPT (_extra), _extra FROM cpu AS c"
    )
    assert exclude("SELECT * FROM cpu c JOIN net n ON c.ts = n.ts", "c", "n") == (
        "SELECT * EXCEPT (`c`.`_extra`, `n`.`_extra`) FROM cpu AS c JOIN net AS n ON c.ts = n.ts"
    )
    assert exclude("SELECT to_json(struct(*)) AS j FROM cpu", "cpu") == (
        "SELECT TO_JSON(STRUCT(* EXCEPT (_extra))) AS j FROM cpu"
    )


def test_star_of_other_tables_and_counts_stay() -> None:
    for sql in ("SELECT r.* FROM cpu JOIN r ON TRUE", "SELECT COUNT(*) FROM cpu"):
        assert exclude(sql, "cpu") == sql
    written = "SELECT * EXCEPT (_extra) FROM cpu"
    assert exclude(written, "cpu") == written


def test_star_without_undeclared_fields_stands_for_all_columns() -> None:
    stars = [parse(f"SELECT {star} FROM s").expressions[0] for star in ("*", "* EXCEPT (_extra)")]
    assert all(map(excludes_only_extra, stars))
    assert not excludes_only_extra(parse("SELECT * EXCEPT (a) FROM s").expressions[0])


def test_queries_that_name_undeclared_fields_read_views_with_them() -> None:
    assert reveal_extra("SELECT * FROM cpu", VIEWS) == "SELECT * FROM cpu"
    assert reveal_extra("SELECT '_extra' AS x FROM cpu", VIEWS) == "SELECT '_extra' AS x FROM cpu"
    assert reveal_extra("SELECT *, _extra AS x FROM cpu", VIEWS) == (
        "SELECT * EXCEPT (_extra), _extra AS x FROM _with_extra_cpu AS cpu"
    )
    with_cte = "WITH cpu AS (SELECT 1 AS _extra) SELECT _extra FROM cpu"
    assert reveal_extra(with_cte, VIEWS) == with_cte
