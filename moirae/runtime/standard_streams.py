"""Standard output and standard error of commands, which may be closed, full, or not UTF-8.

A character that the encoding of a stream lacks is replaced: typographic ones by ASCII that looks
like them, others by `\\xNN` or `\\uNNNN`, so that different names remain different.
"""

import codecs
import io
import json
import os
import re
import sys
from typing import NoReturn, TextIO, cast

from moirae.errors import OutputError

_REPLACE_ERRORS = "moirae.replace"  # name of the error handler
_LOOKALIKES = str.maketrans(
    {
        "–": "-",
        "—": "-",
        "−": "-",
        "…": "...",
        "·": "-",
        "•": "*",
        "×": "x",
        "±": "+-",
        "≤": "<=",
        "≥": ">=",
        "≈": "~",
        "→": "->",
        "←": "<-",
        "‘": "'",
        "’": "'",
        "“": '"',
        "”": '"',
        "\u00a0": " ",
        **dict.fromkeys("─━┄┅┈┉╌╍═╴╶╸╺╼╾", "-"),
        **dict.fromkeys("│┃┆┇┊┋╎╏║╵╷╹╻╽╿", "|"),
        **{chr(code): "+" for code in range(0x250C, 0x2574) if chr(code) not in "╌╍╎╏═║"},
        **dict.fromkeys("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏", "*"),  # of a progress bar
    }
)
_NOT_ASCII = re.compile(r"[^\x00-\x7f]+")
_SURROGATE_ESCAPES = range(0xDC80, 0xDD00)  # bytes of names that are not UTF-8, as Python has them


class _Stdout(io.TextIOWrapper):
    """Standard output of a command. Ends the command if the reader has enough, as `head` has.

    Raises `OutputError` if output is lost for another reason. Later output is dropped.
    """

    exit_code = 0
    """With which the command ends if the reader has enough, see `keep_exit_code`."""

    def write(self, text: str) -> int:
        """As `TextIO.write`."""
        try:
            return super().write(text)
        except OSError as error:
            self._end(error)

    def flush(self) -> None:
        """As `TextIO.flush`."""
        try:
            super().flush()
        except OSError as error:
            self._end(error)

    def _end(self, error: OSError) -> NoReturn:
        send_to_null(self)
        if isinstance(error, BrokenPipeError):
            raise SystemExit(self.exit_code) from error
        raise OutputError(f"standard output: {error.strerror}") from error


def prepare_stdout() -> None:
    """Let this process write to standard output whatever it is. To be called once, at the start."""
    # Without this variable, a terminal is not known to understand escape sequences.
    os.environ.setdefault("TERM", "dumb")
    stream = sys.stdout
    if stream is None:
        stream = _open_null(1)
    if isinstance(stream, io.TextIOWrapper):
        register_replacements()
        encoding = stream.encoding
        line_buffering, write_through = stream.line_buffering, stream.write_through
        # The previous object must not close the file when it is deleted.
        sys.stdout = _Stdout(
            stream.detach(),
            encoding,
            _REPLACE_ERRORS,
            line_buffering=line_buffering,
            write_through=write_through,
        )


def keep_exit_code(code: int) -> None:
    """End with this code also if the reader of standard output does not wait for all of it.

    For commands whose exit code is their result: `moirae status | head -1`.
    """
    if isinstance(sys.stdout, _Stdout):
        sys.stdout.exit_code = code


class _Stderr:
    """Standard error that may be closed at the other end: later output is dropped, no write raises.

    A process outlives the terminal or pipe that it was started with, at least for its shutdown.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> object:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """As `TextIO.write`; returns the number of characters."""
        try:
            return self._stream.write(text)
        except OSError:
            send_to_null(self._stream)
            return len(text)

    def flush(self) -> None:
        """As `TextIO.flush`."""
        try:
            self._stream.flush()
        except OSError:
            send_to_null(self._stream)


def tolerate_closed_stderr() -> None:
    """Let this process and its children write to standard error even if it is closed."""
    if sys.stderr is None:
        sys.stderr = _open_null(2)
    if isinstance(sys.stderr, io.TextIOWrapper):
        register_replacements()
        sys.stderr.reconfigure(errors=_REPLACE_ERRORS)
    sys.stderr = cast(TextIO, _Stderr(sys.stderr))


def _open_null(descriptor: int) -> TextIO:
    """/dev/null as a descriptor that was closed before the start: no other file may get it."""
    null = os.open(os.devnull, os.O_WRONLY)
    if null != descriptor and _is_closed(descriptor):
        os.dup2(null, descriptor)
        os.close(null)
        null = descriptor
    return open(null, "w", encoding="utf-8", closefd=False)


def _is_closed(descriptor: int) -> bool:
    """False also if a library has got the descriptor for a file of its own."""
    try:
        os.fstat(descriptor)
    except OSError:
        return True
    return False


def send_to_null(stream: TextIO) -> None:
    """Send buffered and later output to /dev/null, also that of child processes."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, stream.fileno())
    os.close(null)


def register_replacements() -> None:
    """Make the error handler known to Python's encoders."""
    codecs.register_error(_REPLACE_ERRORS, _replace)


def _replace(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    characters = error.object[error.start : error.end]
    return "".join(map(_replace_character, characters)), error.end


def _replace_character(character: str) -> str:
    code = ord(character)
    if code in _LOOKALIKES:
        return _LOOKALIKES[code]
    if code in _SURROGATE_ESCAPES:
        return f"\\x{code - 0xDC00:02x}"
    return character.encode("ascii", "backslashreplace").decode()


def is_utf8(stream: TextIO) -> bool:
    """Whether a stream can show every character."""
    encoding = getattr(stream, "encoding", None) or "utf-8"
    return codecs.lookup(encoding).name == "utf-8"


def write_json(content: bytes) -> None:
    """Write a JSON value to standard output as a line; in ASCII if that is not UTF-8."""
    text = content.decode()
    if not is_utf8(sys.stdout):
        # Other characters than ASCII occur in JSON only inside of strings.
        text = _NOT_ASCII.sub(lambda match: json.dumps(match[0])[1:-1], text)
    sys.stdout.write(text + "\n")


def replace_unencodable(text: str, stream: TextIO) -> str:
    """The text as a stream will show it: of use where its width matters."""
    if is_utf8(stream):
        return text
    register_replacements()
    return text.encode(stream.encoding, _REPLACE_ERRORS).decode(stream.encoding)
