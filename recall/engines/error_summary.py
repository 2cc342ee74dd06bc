"""The reason of a failed statement in one line."""

import re

# Of `archiver/spark/java/org/moirae/patterns`, within the trace of a task or of the optimizer.
_PATTERN_LIMIT = re.compile(
    r"the regular expression [^\n]*? needs more than [\d,]+ steps for a value of [\d,]+ characters"
)


def find_pattern_limit(text: str) -> str | None:
    """What Spark's error says about a pattern that needs too many steps; None: it is another."""
    match = _PATTERN_LIMIT.search(text)
    return None if match is None else match.group()


def summarize_error(error: BaseException) -> str:
    """The first line of an error's message, or what Spark says below it about a pattern."""
    text = str(error).strip()
    first_line = text.splitlines()[0] if text else type(error).__name__
    return find_pattern_limit(text) or first_line
