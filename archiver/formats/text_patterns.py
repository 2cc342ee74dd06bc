"""Patterns of log lines in RE2's syntax: a group is a field of the record. No I/O."""

from dataclasses import dataclass, field

from archiver.formats.format import Format

_QUOTED = r'(?:[^"\\]|\\.)*'
_COMMON = (
    r"(?P<host>\S+) (?P<ident>\S+) (?P<user>\S+) \[(?P<time>[^\]]*)\] "
    rf'"(?P<request>{_QUOTED})" (?P<status>[0-9]{{3}}|-) (?P<bytes>[0-9]+|-)'
)
_PRIORITY = r"<(?P<priority>[0-9]{1,3})>"
_ISO_TIME = r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.,]+(?:Z|[+-][0-9:]+)?"
_STRUCTURED_DATA = r'(?:\[(?:[^\]"\\]|"(?:[^"\\]|\\.)*"|\\.)*\])+'
_RFC_5424 = (
    rf"{_PRIORITY}1 (?P<time>\S+) (?P<host>\S+) (?P<app>\S+) (?P<pid>\S+) (?P<msgid>\S+) "
    rf"(?P<structured_data>-|{_STRUCTURED_DATA})(?: (?:\x{{FEFF}})?(?P<message>.*))?"
)
_RFC_3164 = (
    rf"(?:{_PRIORITY})?(?P<time>[A-Z][a-z]{{2}} +[0-9]{{1,2}}(?: [0-9]{{4}})? [0-9:]{{8}}"
    rf"|{_ISO_TIME}) (?P<host>\S+) "
    r"(?:(?P<app>[^\[\]:\s]+)(?:\[(?P<pid>[^\]]*)\])?: ?)?(?P<message>.*)"
)


@dataclass(frozen=True)
class TextPattern:
    """The patterns of a format, of which the first that fits a record counts.

    `times`: formats of the field `time`, which is then read as ISO 8601. `empty`: text of a field
    without a value.
    """

    patterns: tuple[str, ...]
    times: tuple[str, ...] = ()
    empty: str | None = None
    fields: tuple[str, ...] = field(default=())


BUILT_IN_PATTERNS: dict[str, TextPattern] = {
    "combined": TextPattern(
        (rf'{_COMMON} "(?P<referer>{_QUOTED})" "(?P<agent>{_QUOTED})"',),
        times=("%d/%b/%Y:%H:%M:%S %z",),
        empty="-",
    ),
    "common": TextPattern((_COMMON,), times=("%d/%b/%Y:%H:%M:%S %z",), empty="-"),
    "syslog": TextPattern(
        (_RFC_5424, _RFC_3164), times=("%b %d %H:%M:%S", "%b %d %Y %H:%M:%S"), empty="-"
    ),
    "klog": TextPattern(
        (
            r"(?P<severity>[IWEF])(?P<time>[0-9]{4} [0-9:]{8}\.[0-9]+) +(?P<thread>[0-9]+) "
            r"(?P<file>[^:\]]+):(?P<line>[0-9]+)\] ?(?P<message>.*)",
        ),
        times=("%m%d %H:%M:%S.%f",),
    ),
    "cri": TextPattern(
        (
            r"(?P<time>\S+) (?P<stream>stdout|stderr) "
            r"[FP](?::\S*)?(?: (?P<message>.*))?",
        ),
    ),
}
"""By name of the format."""

REQUEST_PATTERN = r"^(?P<method>[A-Z]+) (?P<path>.*?)(?: (?P<protocol>HTTP/[0-9.]+))?$"
"""Parts of the field `request` of `combined` and `common`, which it is replaced by."""


def find_pattern(record_format: Format) -> TextPattern | None:
    """The pattern of a format of text; None for others."""
    if record_format.name == "text":
        return TextPattern((record_format.pattern or r"(?P<message>.*)",))
    return BUILT_IN_PATTERNS.get(record_format.name)
