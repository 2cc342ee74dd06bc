"""A locale that is not installed is replaced."""

import locale
import os

import pytest
from structlog.testing import capture_logs

from moirae.runtime.locales import replace_missing_locale


@pytest.fixture(autouse=True)
def _restore_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("LC_") or name == "LANG":
            monkeypatch.delenv(name)
    monkeypatch.setenv("LC_ALL", "")  # restored, whatever the test does


@pytest.mark.parametrize("name", ["LC_ALL", "LC_CTYPE", "LANG"])
def test_missing_locale_is_replaced_and_named(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "xx_YY.UTF-8")
    with capture_logs() as events:
        replace_missing_locale()
        replace_missing_locale()
    (event,) = events
    assert event["action"] == "locale_missing"
    assert event["locale"].endswith(f"{name}=xx_YY.UTF-8")
    assert os.environ["LC_ALL"] == "C.UTF-8"


def test_installed_locale_remains(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANG", "C")
    before = locale.setlocale(locale.LC_ALL)
    with capture_logs() as events:
        replace_missing_locale()
    assert (events, os.environ["LC_ALL"]) == ([], "")
    assert locale.setlocale(locale.LC_ALL) == before
