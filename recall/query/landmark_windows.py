"""SQL that assigns rows to windows since a time of the day. No I/O.

Such a window is represented by a structure of its start and its end.
"""

from recall.history_ranges import DAY
from recall.query.landmarks import landmark_runs
from recall.query.windows import Window

# Names that an alias adds to the columns of the rows: the landmark before a row, the next one, and
# the number of steps since the former at which a window ends.
_SINCE = "_since"
_UNTIL = "_until"
_STEP = "_step"


def spark_windows(time: str, window: Window) -> str:
    """Spark SQL: an array of the windows of a time, with the fields `start` and `end`."""
    assert window.landmark is not None
    micros = f"unix_micros({time})"
    runs = ", ".join(
        f"[{run.first}, {run.days}, {run.end}]" for run in landmark_runs(window.landmark)
    )
    # One constant: statements with hundreds of them are slow to parse and to copy.
    all_runs = f"from_json('[{runs}]', 'array<array<bigint>>')"
    day = f"least(({micros} - run[0]) div {DAY}, run[1] - 1)"
    since = f"run[0] + {day} * {DAY}"
    until = f"if({day} = run[1] - 1, run[2], {since} + {DAY})"
    days = (
        f"transform(filter({all_runs}, "
        f"run -> run[0] <= {micros} AND {micros} < run[2]), run -> struct({since}, {until}))"
    )
    first = f"({micros} - day.col1) div {window.slide} + 1"
    last = f"(day.col2 - day.col1 + {window.slide - 1}) div {window.slide}"
    end = f"timestamp_micros(least(day.col1 + step * {window.slide}, day.col2))"
    windows = f"named_struct('start', timestamp_micros(day.col1), 'end', {end})"
    return f"flatten(transform({days}, day -> transform(sequence({first}, {last}), step -> {windows})))"


def duckdb_windows(source: str, alias: str, micros: str, window: Window) -> tuple[str, str]:
    """DuckDB's SQL: rows once for each window of their time, and the window. `micros`: the time."""
    rows = _with_steps(f"{source} AS {alias}", alias, micros, window, "")
    return f"({rows}) AS {alias}", _window_key(alias, window)


def duckdb_windows_of_panes(panes: str, bounds: str, low: str, high: str, window: Window) -> str:
    """DuckDB's SQL: panes once for each window `_start` within bounds, see `PaneDialect`."""
    steps = _with_steps(f"{panes} CROSS JOIN {bounds}", f"{panes}", "_w", window, f"{low}, {high}")
    end = f"({_window_key('_p', window)})['end']"
    return (
        f"(SELECT _p.*, {_window_key('_p', window)} AS _start FROM ({steps}) AS _p "
        f"WHERE {end} BETWEEN {low} + {window.size} AND {high} + {window.size})"
    )


def _window_key(alias: str, window: Window) -> str:
    end = f"least({alias}.{_SINCE} + {alias}.{_STEP} * {window.slide}, {alias}.{_UNTIL})"
    return f'struct_pack(start := {alias}.{_SINCE}, "end" := {end})'


def _with_steps(from_: str, alias: str, micros: str, window: Window, bounds: str) -> str:
    """A SELECT of rows with the steps of their windows. `bounds`: columns of limits, or nothing."""
    assert window.landmark is not None
    runs = ", ".join(
        f"({run.first}, {run.days}, {run.end})" for run in landmark_runs(window.landmark)
    )
    first, last = f"({micros} - {_SINCE}) // {window.slide} + 1", _round_up_steps(_UNTIL, window)
    if bounds:
        low, high = bounds.split(", ")
        first = f"greatest({first}, ({low} + {window.size} - {_SINCE}) // {window.slide})"
        last = f"least({last}, {_round_up_steps(f'{high} + {window.size}', window)})"
        bounds = f", {bounds}"
    day = f"least(({micros} - _runs.first) // {DAY}, _runs.count - 1)"
    return (
        f"SELECT {alias}.*{bounds}, _runs.first + {day} * {DAY} AS {_SINCE}, "
        f"if({day} = _runs.count - 1, _runs.end, {_SINCE} + {DAY}) AS {_UNTIL}, "
        f"unnest(range({first}, {last} + 1)) AS {_STEP} FROM {from_} "
        f'ASOF JOIN (VALUES {runs}) AS _runs(first, count, "end") ON {micros} >= _runs.first'
    )


def _round_up_steps(time: str, window: Window) -> str:
    """The number of steps from a landmark to a time, rounded up."""
    return f"({time} - {_SINCE} + {window.slide - 1}) // {window.slide}"
