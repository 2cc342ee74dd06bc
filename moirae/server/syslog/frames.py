"""Divides what a connection sends into messages: by their length or by line (RFC 6587). No I/O."""

_MAX_DIGITS = 9  # of a length
_ESCAPES = ((b"\n", b"#012"), (b"\r", b"#015"), (b"\0", b"#000"))  # as rsyslog writes them


class FrameReader:
    """The frames of one connection. A message is counted by octets if its first byte is a digit.

    `too_long`: how many messages were left out because of their length.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._buffer = bytearray()
        self._left_out = 0  # bytes of a message with a length that are still to come
        self._skips_line = False
        self.too_long = 0

    def feed(self, data: bytes) -> list[bytes]:
        """The messages that are complete now."""
        self._buffer += data
        messages: list[bytes] = []
        while self._buffer:
            if self._left_out:
                skipped = min(self._left_out, len(self._buffer))
                del self._buffer[:skipped]
                self._left_out -= skipped
                continue
            is_counted = 0x31 <= self._buffer[0] <= 0x39 and not self._skips_line
            message = self._read_counted() if is_counted else self._read_line()
            if message is None:
                break
            if message:
                messages.append(message)
        return messages

    def finish(self) -> list[bytes]:
        """What a connection has sent last, if it is a line without an end."""
        is_counted = bool(self._buffer) and 0x31 <= self._buffer[0] <= 0x39
        message = b"" if is_counted or self._skips_line else clean(bytes(self._buffer))
        self._buffer.clear()
        return [message] if message else []

    def _read_counted(self) -> bytes | None:
        """The next message; empty: it is left out; None: it is not complete."""
        space = self._buffer.find(b" ", 0, _MAX_DIGITS + 1)
        digits = bytes(self._buffer[: space if space > 0 else _MAX_DIGITS + 1])
        if not digits.isdigit() or len(digits) > _MAX_DIGITS:
            return self._read_line()  # a line that begins with a digit
        if space < 0:
            return None
        length = int(digits)
        if length > self._max_bytes:
            self.too_long += 1
            del self._buffer[: space + 1]
            self._left_out = length
            return b""
        end = space + 1 + length
        if len(self._buffer) < end:
            return None
        message = bytes(self._buffer[space + 1 : end])
        del self._buffer[:end]
        return clean(message)

    def _read_line(self) -> bytes | None:
        end = self._buffer.find(b"\n")
        if end < 0:
            if len(self._buffer) > self._max_bytes:
                self.too_long += not self._skips_line
                self._skips_line = True
                self._buffer.clear()
            return None
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        if self._skips_line:
            self._skips_line = False
            return b""
        if len(line) > self._max_bytes:
            self.too_long += 1
            return b""
        return clean(line)


def clean(message: bytes) -> bytes:
    """A message as a line of a file: characters that divide lines are written as `#012`."""
    message = message.rstrip(b"\r\n\0 ")
    for character, escape in _ESCAPES:
        if character in message:
            message = message.replace(character, escape)
    return message
