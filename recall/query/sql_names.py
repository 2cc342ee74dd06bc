"""Names of columns and tables that rewritten queries reserve."""

# In SQL about an event: the alias under which the new event is named, as in `event.host`.
EVENT = "event"

# Columns of a table of pending events: the event's id, its time, and the half-open range of times
# [_low, _high) from which it reads rows of streams.
EID = "_eid"
EVENT_TS = "_event_ts"
LOW = "_low"
HIGH = "_high"

# Columns of a relation's physical table beside the declared ones: the half-open range of event time
# in which a row is valid.
VALID_FROM = "_valid_from"
VALID_TO = "_valid_to"
VALIDITY_TYPES = {VALID_FROM: "timestamp", VALID_TO: "timestamp"}  # types by column

# A column of queries whose rows are ordered: their numbers, from 1.
ROW_NUMBER = "_row"

# A column of each stream beside the declared ones: the undeclared fields of a row as a JSON object.
# Queries may name it; `*` does not include it.
EXTRA = "_extra"

# A function of DuckDB as Spark's get_json_object, see `recall.statements.json_text`.
JSON_TEXT = "_json_text"

# The table of merged partial answers that `merge` of a split query reads.
MERGED_TABLE = "_merged"

# The tables that `merge` of a paned query reads: panes, and one row with the first and the last
# start of a window, [_low, _high], in microseconds.
PANES_TABLE = "_panes"
WINDOW_BOUNDS_TABLE = "_window_bounds"


def order_column(number: int) -> str:
    """The column of a key of ORDER BY among rows that are ordered later, from 0."""
    return f"_o{number}"


def attribute_column(name: str) -> str:
    """The column of an event's attribute in a table of pending events."""
    return f"_event_{name}"
