"""Patterns of log lines in RE2's syntax: a group is a field of the record. No I/O."""

from dataclasses import dataclass, field

from archiver.formats.format import Format
from archiver.formats.time_formats import APACHE_TIMES, SYSLOG_TIMES

_QUOTED = r'(?:[^"\\]|\\.)*'
# A host may be the list of a proxy, and a user may have blanks. What servers are told to write
# besides, such as durations, comes last, except the name of a virtual host.
_COMMON = (
    r"(?:(?P<vhost>\S+) )??(?P<host>\S+(?:, \S+)*) (?P<ident>\S+) "
    r"(?P<user>\S+|[^-\s].*?) \[(?P<time>[^\]]*)\] "
    rf'"(?P<request>{_QUOTED})" (?P<status>[0-9]{{3}}|-) (?P<bytes>[0-9]+|-)'
)
_REST = r"(?: (?P<rest>.*))?"
# Of 24 facilities, each with 8 severities.
PRIORITY = "(?:0?[0-9]{1,2}|1[0-8][0-9]|19[01])"
_PRIORITY = rf"<(?P<priority>{PRIORITY})>"
_ISO_TIME = r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.,]+(?:Z|[+-][0-9:]+)?"
_STRUCTURED_DATA = r'(?:\[(?:[^\]"\\]|"(?:[^"\\]|\\.)*"|\\.)*\])+'
_RFC_5424 = (
    rf"{_PRIORITY}1 (?P<time>\S+) (?P<host>\S+) (?P<app>\S+) (?P<pid>\S+) (?P<msgid>\S+) "
    rf"(?P<structured_data>-|{_STRUCTURED_DATA})(?: (?:\x{{FEFF}})?(?P<message>.*))?"
)
# Another word after a time is a host.
_ZONES = (
    "UTC|GMT|WET|WEST|BST|CET|CEST|EET|EEST|MSK|SAST|IST|HKT|JST|KST|AWST|ACST|ACDT|AEST|AEDT|"
    "NZST|NZDT|AST|ADT|EST|EDT|CST|CDT|MST|MDT|PST|PDT|AKST|AKDT|HST"
)
_MONTH_TIME = (
    r"[A-Z][a-z]{2} +[0-9]{1,2}(?: [0-9]{4})? [0-9:]{8}(?:\.[0-9]+)?"
    rf"(?: (?:{_ZONES}))?"
)
# Some systems leave the host out. A word with a colon is no host, but the application.
_HOST_AND_MESSAGE = (
    r"(?:(?P<host>\S*[^\s:]) )?"
    r"(?:(?P<app>[^\[\]:\s]+)(?:\[(?P<pid>[^\]]*)\])?: ?)?(?P<message>.*)"
)
_RFC_3164 = rf"(?:{_PRIORITY})?(?P<time>{_MONTH_TIME}|{_ISO_TIME}) {_HOST_AND_MESSAGE}"
_SPACED_TIME = rf"{_PRIORITY}(?P<time>[0-9-]{{10}} [0-9:.,]+) {_HOST_AND_MESSAGE}"
# Network devices: a sequence number, a mark of the clock, and codes such as %SYS-5-CONFIG_I.
_DEVICE = (
    rf"(?:{_PRIORITY})?(?:[0-9]+: )?[*.]?(?P<time>{_MONTH_TIME}|{_ISO_TIME}):? "
    r"(?:(?P<host>[^\s%]\S*?) ?:? )?(?P<app>%[A-Z0-9_]+-[0-7]-[A-Z0-9_]+): ?(?P<message>.*)"
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
        (rf'{_COMMON} "(?P<referer>{_QUOTED})" "(?P<agent>{_QUOTED})"{_REST}',),
        times=APACHE_TIMES,
        empty="-",
    ),
    "common": TextPattern((_COMMON + _REST,), times=APACHE_TIMES, empty="-"),
    "syslog": TextPattern(
        (_RFC_5424, _DEVICE, _RFC_3164, _SPACED_TIME), times=SYSLOG_TIMES, empty="-"
    ),
    "klog": TextPattern(
        (
            r"(?P<severity>[IWEF])(?P<time>(?:[0-9]{4}){1,2} [0-9:]{8}\.[0-9]+) +(?P<thread>[0-9]+) "
            r"(?P<file>[^\]]+):(?P<line>[0-9]+)\] ?(?P<message>.*)",
        ),
        times=("%m%d %H:%M:%S.%f", "%Y%m%d %H:%M:%S.%f"),
    ),
    "cri": TextPattern(
        (
            r"(?P<time>\S+) (?P<stream>stdout|stderr) "
            r"[FP](?::\S*)?(?: (?P<message>.*))?",
        ),
    ),
}
"""By name of the format."""

REQUEST_PATTERN = (
    r"(?s)^(?P<method>[A-Z]+(?:-[A-Z]+)*) (?P<path>.*?)(?: (?P<protocol>HTTP/[0-9.]+))?$"
)
"""Parts of the field `request` of `combined` and `common`, which it is replaced by."""


def find_pattern(record_format: Format) -> TextPattern | None:
    """The pattern of a format of text; None for others."""
    if record_format.name == "text":
        return TextPattern((record_format.pattern or r"(?P<message>.*)",))
    return BUILT_IN_PATTERNS.get(record_format.name)
