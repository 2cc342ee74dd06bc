"""Event queries over physical tables."""

from recall.query.bind import PhysicalTables, bind_query
from recall.query.shape import Tables

TABLES = Tables(
    {"cpu": "ts"},
    frozenset({"hosts"}),
    {"busy": "SELECT host, ts FROM cpu WHERE cpu > 90"},
)
PHYSICAL = PhysicalTables({"cpu": "archive.cpu", "hosts": "hosts_7"})


def test_derived_streams_are_expanded() -> None:
    sql = bind_query("SELECT host, ts FROM busy", TABLES, PHYSICAL).sql("spark")
    assert sql == (
        "SELECT host, ts FROM (SELECT host, ts FROM archive.cpu AS `cpu` WHERE cpu > 90) AS `busy`"
    )


def test_relations_are_joined_as_valid_at_the_time_of_the_row() -> None:
    sql = bind_query(
        "SELECT c.ts, h.site FROM cpu c LEFT JOIN hosts h ON c.host = h.host", TABLES, PHYSICAL
    ).sql("spark")
    assert "`c`.`ts` >= `h`.`_valid_from` AND `c`.`ts` < `h`.`_valid_to`" in sql


def test_common_tables_hide_streams_of_the_same_name() -> None:
    sql = bind_query("WITH cpu AS (SELECT * FROM busy) SELECT ts FROM cpu", TABLES, PHYSICAL)
    assert sql.sql("spark").endswith("SELECT ts FROM cpu")
