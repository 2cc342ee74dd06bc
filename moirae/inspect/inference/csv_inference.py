"""Tables of text: their delimiter, header, and what else must be declared. No I/O."""

import re
from collections.abc import Sequence
from typing import Any

from archiver.formats import CsvDialect, Format
from archiver.ingest import likely_format_lists, likely_units, named_delimiter, parse_iso_time
from moirae.inspect.inference.text_inference import TIME_PATTERNS

_SAMPLE_ROWS = 200
_MAX_ROW_LINES = 50
_MIN_SHARE = 0.6  # of the rows that have as many fields as the first one
_DELIMITERS = (",", ";", "\t", "|", " ")
_MIN_WORDS = 4  # of a line of a table that blanks divide
# Of a row below no header: fewer may be a text with a delimiter in it.
_MIN_FIELDS = {",": 3, ";": 2, "\t": 2, "|": 2, " ": 8}
_NUMBER = re.compile(r"[+-]?[0-9.,:-]+")
# A text, whose time has a comma before its fraction.
_TEXT_WITH_FRACTION = re.compile(r"\W?[0-9-]{10}[T ][0-9:]{8},[0-9]{3,6} ")
_NUMBER_WITH_SIGN = re.compile(r"\s*[+-]?[0-9]+([.,])[0-9]+\s*")
_TIME = re.compile(rf"[\[(]?(?:{'|'.join(TIME_PATTERNS)})[\])]?")
_NULL_TEXTS = ("-", "NULL", "null", r"\N", "NA", "N/A", " ")
_FIELDS_COMMENT = re.compile(r"#\s?[Ff]ields:?[ \t](.+)")
COLUMNS_QUESTION = "names of the columns, which the file does not have"


def infer_csv(lines: Sequence[bytes]) -> tuple[Format, dict[str, Any], list[str]] | None:
    """CSV, its options, and what the sample does not tell; None: the lines are no table."""
    texts = [line.decode("utf-8", "replace") for line in lines[:_SAMPLE_ROWS]]
    named = named_delimiter(lines[0])
    if named is not None:
        texts = texts[1:]
    comments = [text for text in texts if text.startswith("#")]
    rows = _join_quoted([text for text in texts if not text.startswith("#")])
    table = _infer_named_fields(comments, rows)
    if table is None:
        for delimiter in _DELIMITERS if named is None else (named,):
            table = _infer_table(rows, comments, delimiter)
            if table is not None:
                break
    if table is None:
        return None
    options, questions = table
    declared: dict[str, Any] = {"format": "csv"}
    if options:
        declared["csv"] = options
    names = tuple(options.get("names", ()))
    nulls = tuple(options.get("null_values", ()))
    dialect = CsvDialect(**{**options, "names": names, "null_values": nulls})
    return Format("csv", csv=dialect), declared, questions


def _join_quoted(lines: Sequence[str]) -> list[str]:
    """The rows of lines, of which those with an open quote go on in the next ones."""
    rows: list[str] = []
    position = 0
    while position < len(lines):
        end = position + 1
        row = lines[position]
        while row.count('"') % 2 and end < min(len(lines), position + _MAX_ROW_LINES):
            row += "\n" + lines[end]
            end += 1
        is_closed = row.count('"') % 2 == 0
        rows.append(row if is_closed else lines[position])
        position = end if is_closed else position + 1
    return rows


def _infer_named_fields(
    comments: Sequence[str], rows: Sequence[str]
) -> tuple[dict[str, Any], list[str]] | None:
    """Fields that a comment names, as in the extended log format of web servers, or of Zeek."""
    for comment in comments:
        match = _FIELDS_COMMENT.fullmatch(comment)
        if match is None:
            continue
        names = match[1].split()
        for delimiter in ("\t", " "):
            if rows and all(_count_delimiters(row, delimiter) == len(names) - 1 for row in rows):
                options = {
                    "delimiter": delimiter,
                    "comment": "#",
                    "header": False,
                    "names": names,
                }
                fields = [_split(row, delimiter) for row in rows]
                if any("-" in row for row in fields):
                    options["null_values"] = ["-"]
                return options, []
    return None


def _infer_table(
    rows: Sequence[str], comments: Sequence[str], delimiter: str
) -> tuple[dict[str, Any], list[str]] | None:
    if len(rows) < 2:
        return None
    count = _count_delimiters(rows[0], delimiter)
    same = sum(_count_delimiters(row, delimiter) == count for row in rows)
    if not count or same < _MIN_SHARE * len(rows):
        return None
    options: dict[str, Any] = {} if delimiter == "," else {"delimiter": delimiter}
    if comments:
        options["comment"] = "#"
    fields = [_split(row, delimiter) for row in rows]
    questions: list[str] = []
    if _is_header(rows, fields[0], delimiter):
        fields = fields[1:]
    elif (names := _names_in_comment(comments, delimiter, count)) is not None:
        options |= {"header": False, "names": names}
    elif (time_index := _find_times_without_header(rows, fields, delimiter)) is not None:
        names = [f"column_{number}" for number in range(1, count + 2)]
        names[time_index] = "time"
        options |= {"header": False, "names": names}
        questions.append(COLUMNS_QUESTION)
    else:
        return None
    if delimiter != "," and _has_decimal_commas(fields):
        options["decimal"] = ","
    nulls = _find_null_texts(fields, options.get("decimal", "."))
    if nulls:
        options["null_values"] = nulls
    return options, questions


def _split(row: str, delimiter: str) -> list[str]:
    """The fields of a row without line breaks; quotes around them are removed."""
    fields = re.findall(
        rf'(?:^|{re.escape(delimiter)})("(?:[^"]|"")*"|[^{re.escape(delimiter)}]*)', row
    )
    return [field.strip('"') for field in fields]


def _count_delimiters(row: str, delimiter: str) -> int:
    return re.sub(r'"(?:[^"]|"")*"', "", row).count(delimiter)


def _is_header(rows: Sequence[str], names: Sequence[str], delimiter: str) -> bool:
    if any(_NUMBER.fullmatch(name) or _is_time(name) for name in names):
        return False
    if delimiter != "\t" and any("\t" in name for name in names):
        return False  # texts of a table that tabs divide
    return delimiter != " " or _is_table_of_words(rows)


def _is_table_of_words(rows: Sequence[str]) -> bool:
    """Whether a header of different names is above lines of as many words, as no text has it."""
    names = rows[0].split(" ")
    is_header = all(re.fullmatch(r"[A-Za-z_][A-Za-z0-9_.-]*", name) for name in names)
    return (
        is_header
        and len(set(names)) == len(names) >= _MIN_WORDS
        and all(len(row.split()) == row.count(" ") + 1 == len(names) for row in rows[1:])
    )


def _names_in_comment(comments: Sequence[str], delimiter: str, count: int) -> list[str] | None:
    """The names of a header that begins with the sign of a comment, as `sadf` writes it."""
    if not comments or comments[-1].count(delimiter) != count:
        return None
    names = [name.strip() for name in comments[-1].lstrip("# ").split(delimiter)]
    return names if all(names) and len(set(names)) == len(names) else None


def _find_times_without_header(
    rows: Sequence[str], fields: Sequence[Sequence[str]], delimiter: str
) -> int | None:
    """The index of the field that is a time in all rows; None: they are no table without header."""
    count = _count_delimiters(rows[0], delimiter)
    full_rows = [row for row in fields if len(row) == count + 1]
    if count + 1 < _MIN_FIELDS[delimiter] or len(full_rows) < max(2, len(rows)):
        return None
    if delimiter == " " and "" in fields[0]:
        return None
    if delimiter == "," and _TEXT_WITH_FRACTION.match(rows[0]):
        return None
    times = (index for index in range(count + 1) if all(_is_time(row[index]) for row in full_rows))
    return next(times, None)


def _is_time(field: str) -> bool:
    if re.fullmatch(r"[0-9]{9,19}(?:\.[0-9]+)?", field):
        return bool(likely_units(float(field)))
    if _TIME.fullmatch(field) is not None:
        return True
    return parse_iso_time(field) is not None or bool(likely_format_lists([field]))


def _has_decimal_commas(fields: Sequence[Sequence[str]]) -> bool:
    """Whether some fields are numbers with a comma, and none is one with a point."""
    numbers = (_NUMBER_WITH_SIGN.fullmatch(field) for row in fields for field in row)
    signs = {number[1] for number in numbers if number is not None}
    return signs == {","}


def _find_null_texts(fields: Sequence[Sequence[str]], decimal: str) -> list[str]:
    """Texts that stand for no value in columns that have numbers besides."""
    null_texts: set[str] = set()
    for column in zip(*(row for row in fields if len(row) == len(fields[0])), strict=True):
        nulls = {field for field in column if field in _NULL_TEXTS}
        numbers = [field.replace(decimal, ".") for field in column if field not in (*nulls, "")]
        if nulls and numbers and all(re.fullmatch(r"[+-]?[0-9]*\.?[0-9]+", n) for n in numbers):
            null_texts |= nulls
    return [text for text in _NULL_TEXTS if text in null_texts]
