"""Spark SQL texts: literals, names, LIKE patterns. No I/O."""

import re
import unicodedata

from sqlglot.dialects import Spark

_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_KEYWORDS = frozenset(word.partition(" ")[0] for word in Spark.Tokenizer.KEYWORDS)
_STRING_ESCAPES = str.maketrans({"\\": r"\\", "'": r"\'", "\n": r"\n", "\r": r"\r", "\t": r"\t"})
_LIKE_ESCAPES = str.maketrans({"\\": r"\\", "%": r"\%", "_": r"\_"})


def quote_text(text: str) -> str:
    """A string literal."""
    return f"'{text.translate(_STRING_ESCAPES)}'"


def quote_name(name: str) -> str:
    """The name of a column, quoted where it has to be."""
    if _PLAIN_NAME.fullmatch(name) and name.upper() not in _KEYWORDS:
        return name
    return "`" + name.replace("`", "``") + "`"


def escape_like(text: str) -> str:
    """A text as part of a LIKE pattern."""
    return text.translate(_LIKE_ESCAPES)


def escape_regex(text: str) -> str:
    """A text as part of a regular expression of Java."""
    return re.sub(r"[!-/:-@\[-`{-~]", lambda match: "\\" + match.group(), text)


def has_letters(text: str) -> bool:
    """Whether upper or lower case may matter when a text is compared."""
    return any(map(_may_have_case, text))


def fold_text(text: str) -> str:
    """A literal in lower case. Beyond ASCII the engine decides which that is."""
    if text.isascii():
        return quote_text(text.lower())
    return f"lower({quote_text(text)})"


def _may_have_case(character: str) -> bool:
    # Marks too: the small letter of some capitals is a letter with a mark.
    return character.isalpha() or (
        not character.isascii() and unicodedata.category(character)[0] not in "PSZCN"
    )
