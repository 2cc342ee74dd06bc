"""How engines say what `recall.query.plain` writes. Pure."""

_EPOCH = "epoch_us({time})"


def _quoted(name: str, mark: str) -> str:
    return mark + name.replace(mark, mark * 2) + mark


class SparkWords:
    """Spark's: it knows windows itself."""

    def name(self, name: str) -> str:
        """See `Words`."""
        return _quoted(name, "`")

    def windowed(self, source: str, alias: str, time: str, window: tuple[int, int, int]) -> tuple[str, str]:
        """See `Words`."""
        spans = ", ".join(f"'{span} microseconds'" for span in window)
        return f"{source} AS {alias}", f"window({time}, {spans})"

    def border(self, column: str, side: str, window: tuple[int, int, int]) -> str:
        """See `Words`."""
        return f"{column}.{side}"


class DuckWords:
    """DuckDB's: a window is the microsecond at which it starts."""

    def name(self, name: str) -> str:
        """See `Words`."""
        return _quoted(name, '"')

    def windowed(self, source: str, alias: str, time: str, window: tuple[int, int, int]) -> tuple[str, str]:
        """See `Words`."""
        size, slide, offset = window
        at = _EPOCH.format(time=time)
        last = f"({at} - (({at} - {offset}) % {slide} + {slide}) % {slide})"
        if slide == size:
            return f"{source} AS {alias}", last
        # The first window that holds a moment starts less than `size` before it.
        first = f"({last} - (({size - 1} - ({at} - {last})) // {slide}) * {slide})"
        starts = f"unnest(range({first}, {last} + 1, {slide})) AS _start"
        return f"(SELECT {alias}.*, {starts} FROM {source} AS {alias}) AS {alias}", f"{alias}._start"

    def border(self, column: str, side: str, window: tuple[int, int, int]) -> str:
        """See `Words`."""
        return f"make_timestamptz({column}{'' if side == 'start' else f' + {window[0]}'})"
