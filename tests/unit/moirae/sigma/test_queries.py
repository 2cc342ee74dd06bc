"""Event queries of rules, and reasons why there is none."""

import pytest
from sigma.rule import SigmaRule

from moirae.errors import NotImported
from moirae.sigma.fields import StreamLayout
from moirae.sigma.model import LogSource, SigmaMap
from moirae.sigma.queries import QueryWriter, check_size, check_status
from tests.unit.moirae.sigma.examples import CURL

COLUMNS = {"time": "timestamp", "Image": "string", "CommandLine": "string", "User": "string"}


def write(text: str, sigma_map: SigmaMap | None = None) -> str:
    layout = StreamLayout("process", COLUMNS, sigma_map or SigmaMap())
    return QueryWriter(layout, "time", ("Image",)).write_filter(SigmaRule.from_yaml(text))


def test_query_selects_rows_with_their_time_as_ts() -> None:
    assert write(CURL) == (
        "SELECT *, `time` AS ts FROM process\n"
        "WHERE endswith(lower(Image), '\\\\curl.exe')\n"
        "  AND (contains(lower(CommandLine), 'http') OR contains(lower(CommandLine), 'ftp'))\n"
        "  AND (lower(User) = 'system') IS NOT TRUE"
    )


def test_condition_of_the_log_source_is_added() -> None:
    sigma_map = SigmaMap(logsources=(LogSource(where="User IS NOT NULL OR Image = ''"),))
    assert "\nWHERE (User IS NOT NULL OR Image = '')\n  AND endswith(" in write(CURL, sigma_map)
    one = CURL.replace("selection and not filter", "filter or selection")
    assert "\n  AND (lower(User) = 'system' OR " in write(one, sigma_map)


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("User: SYSTEM", "Who: a\n        What: b", "fields Who, What: no such column"),
        ("User: SYSTEM", "User|expand: '%admins%'", "placeholder %admins% has no values"),
        ("User: SYSTEM", "User|week: 3", "week"),
        ("User: SYSTEM", "User|re: '(?P<a>b)'", "a named group"),
        ("User: SYSTEM", "'|contains': x", "keywords without a field"),
        ("selection and not filter", "selection | count() > 3", "pipe syntax"),
        ("selection and not filter", "selection and nothing", "nothing"),
    ],
)
def test_what_cannot_be_said_is_a_reason(old: str, new: str, reason: str) -> None:
    with pytest.raises(NotImported, match=reason):
        write(CURL.replace(old, new))


def test_query_that_is_too_long_is_a_reason() -> None:
    with pytest.raises(NotImported, match="30,000 characters; 20,000 are allowed"):
        check_size("x" * 30_000)
    with pytest.raises(NotImported, match="nested"):
        check_size("(" * 40 + ")" * 40)


@pytest.mark.parametrize("status", ["deprecated", "unsupported"])
def test_withdrawn_rules_are_left_out(status: str) -> None:
    with pytest.raises(NotImported, match=status):
        check_status(SigmaRule.from_yaml(CURL.replace("status: test", f"status: {status}")))
