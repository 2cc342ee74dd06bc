"""Records of CSV. No I/O."""

import csv
import re
from collections.abc import Callable, Sequence
from typing import Any

from archiver.errors import InvalidValue
from archiver.formats import PLAIN_CSV, CsvDialect
from archiver.ingest.decoding.records import MAX_LINE_BYTES

# One field may be as long as a record.
csv.field_size_limit(MAX_LINE_BYTES)

_UNREADABLE_HEADER = (
    "the header line of the CSV file is no record: it is not UTF-8 text, or has a quote that is "
    "not closed or is followed by text"
)
# By a part of the message of Python's CSV reader: the fact for the user.
_CSV_ERRORS = {
    "unexpected end of data": "a quoted field has no closing quote",
    "expected after": "a closing quote is followed by text; a quote in quoted text is doubled",
    "new-line character": "a carriage return within the line; lines end with LF or CRLF",
}


def parse_csv_header(record: bytes, dialect: CsvDialect = PLAIN_CSV) -> list[str]:
    """The field names in the first record of a CSV file. Raises `InvalidValue`."""
    names = split_header(record, dialect)
    _verify_names(names)
    return names


def split_header(record: bytes, dialect: CsvDialect) -> list[str]:
    """The same, of which some may be equal."""
    names: list[str] = []
    for number, field in enumerate(split_csv(decode_utf8(record), dialect), 1):
        name = field.strip()
        # Spreadsheets write empty columns after the last one.
        names.append(name if name or name not in names else f"column {number}")
    return names


def _verify_names(names: Sequence[str]) -> None:
    """Raises `InvalidValue` if the header of a file is invalid."""
    if not names:
        raise InvalidValue(_UNREADABLE_HEADER)
    repeated = next((name for name in names if names.count(name) > 1), None)
    if repeated is not None:
        raise InvalidValue(f"the header of the CSV file has the field {repeated!r} twice")


def csv_parser(
    header: Sequence[str], dialect: CsvDialect = PLAIN_CSV
) -> Callable[[bytes], dict[str, Any]]:
    """Returns the fields of a record; raises `InvalidValue`."""
    width = len(header)
    delimiter = dialect.delimiter
    is_valid = 0 < len(set(header)) == width
    null = {"", *dialect.null_values}

    def parse(record: bytes) -> dict[str, Any]:
        if not is_valid:
            _verify_names(header)
        text = decode_utf8(record)
        # Splitting is much faster than csv.reader, with the same result for lines without quotes.
        if _has_special_characters(text, dialect):
            fields = split_csv(text, dialect)
        else:
            fields = text.split(delimiter)
        if len(fields) != width:
            raise InvalidValue(f"the line has {len(fields)} fields, the header has {width}")
        return {
            name: None if field in null else field
            for name, field in zip(header, fields, strict=True)
        }

    return parse


def _has_special_characters(text: str, dialect: CsvDialect) -> bool:
    if dialect.quote is not None and dialect.quote in text:
        return True
    return dialect.escape is not None and dialect.escape in text


def decode_utf8(record: bytes) -> str:
    """Raises `InvalidValue`."""
    try:
        return record.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidValue("not UTF-8 text") from error


def split_csv(text: str, dialect: CsvDialect = PLAIN_CSV) -> list[str]:
    """The fields of one record. Raises `InvalidValue`."""
    try:
        return next(csv.reader([text], **reader_options(dialect)))
    except csv.Error as error:
        for parser_message, fact in _CSV_ERRORS.items():
            if parser_message in str(error):
                raise InvalidValue(fact) from error
        raise InvalidValue(str(error)) from error


def regular_record(delimiter: str) -> str:
    """Pattern of a line that is one record to every reader: quotes are around whole fields."""
    field = rf'(?:[^"{re.escape(delimiter)}]*|"(?:[^"]|"")*")'
    return f"^{field}(?:{re.escape(delimiter)}{field})*$"


def reader_options(dialect: CsvDialect) -> dict[str, Any]:
    """The dialect as arguments of Python's CSV reader."""
    options: dict[str, Any] = {"delimiter": dialect.delimiter, "strict": True}
    if dialect.quote is None:
        options["quoting"] = csv.QUOTE_NONE
    else:
        options["quotechar"] = dialect.quote
        # An escaped quote beside a doubled one would be ambiguous.
        options["doublequote"] = dialect.escape is None
    options["escapechar"] = dialect.escape
    return options
