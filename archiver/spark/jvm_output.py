"""What a JVM and its Python workers write to standard error, without what is expected. No I/O."""

from collections.abc import Iterable, Iterator

# Java always reports the module that Spark's launcher adds, and options of the environment.
_EXPECTED = ("WARNING: Using incubator modules:", "NOTE: Picked up JDK_JAVA_OPTIONS:")
_TRACEBACK = "Traceback (most recent call last):"
# A worker whose task was cancelled, or whose JVM ends, finds its connection closed.
_CLOSED_CONNECTION = ("BrokenPipeError", "ConnectionResetError")


def select_unexpected(lines: Iterable[bytes]) -> Iterator[str]:
    """The lines that tell of a problem, as soon as that is known.

    A traceback is held back until its last line: one of a closed connection is left out.
    """
    traceback: list[str] = []
    for line in lines:
        text = line.decode("utf-8", "replace").rstrip()
        if traceback or text.startswith(_TRACEBACK):
            traceback.append(text)
            if len(traceback) > 1 and text and not text.startswith(" "):
                if not text.startswith(_CLOSED_CONNECTION):
                    yield from traceback
                traceback = []
        elif text and not text.startswith(_EXPECTED):
            yield text
    yield from traceback
