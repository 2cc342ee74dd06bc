"""The locale of this process and of those that it starts, such as PostgreSQL and Java."""

import locale
import os

import structlog

_LOG = structlog.get_logger()

_FALLBACK = "C.UTF-8"
# The variables that replace all categories, and that stand for those without one of their own.
_ALL = "LC_ALL"
_LANGUAGE = "LANG"


def replace_missing_locale() -> None:
    """Replace a locale that is not installed: PostgreSQL would not start, nor Java read names."""
    if _is_installed():
        return
    missing = _describe_variables()
    os.environ[_ALL] = _FALLBACK
    _LOG.warning(
        f"locale is not installed, using {_FALLBACK}", action="locale_missing", locale=missing
    )


def _is_installed() -> bool:
    present = locale.setlocale(locale.LC_ALL)
    try:
        locale.setlocale(locale.LC_ALL, "")
    except locale.Error:
        return False
    locale.setlocale(locale.LC_ALL, present)
    return True


def _describe_variables() -> str:
    """The variables that name locales, as `LC_CTYPE=xx_YY, LANG=de_DE.UTF-8`."""
    if os.environ.get(_ALL):
        return f"{_ALL}={os.environ[_ALL]}"
    names = sorted(name for name in os.environ if name.startswith("LC_"))
    return ", ".join(
        f"{name}={os.environ[name]}" for name in (*names, _LANGUAGE) if name in os.environ
    )
