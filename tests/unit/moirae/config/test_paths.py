"""Variables and paths of the workspace file."""

from pathlib import Path

import pytest

from moirae.config.paths import interpolate, is_url, resolve


def test_variables_are_replaced() -> None:
    environment = {"USER": "me", "DB": "moirae"}
    assert interpolate("postgresql://${USER}@db/${DB}", environment) == "postgresql://me@db/moirae"
    assert interpolate("a $USER {USER}", environment) == "a $USER {USER}"
    # The value of a variable is not interpolated again.
    assert interpolate("${A}", {"A": "${B}", "B": "x"}) == "${B}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("${NONE}", "the environment variable NONE is not set"),
        ("${USER", "invalid variable"),
        ("${}", "invalid variable"),
        ("${1}", "invalid variable"),
    ],
)
def test_unset_or_malformed_variable_is_rejected(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        interpolate(text, {"USER": "me"})


def test_relative_path_is_below_the_folder() -> None:
    assert resolve("data/archive", Path("/w")) == "/w/data/archive"
    assert resolve("/mnt/a", Path("/w")) == "/mnt/a"


@pytest.mark.parametrize("url", ["s3://bucket/a", "file:///mnt/a", "s3a+x://b"])
def test_url_is_not_resolved(url: str) -> None:
    assert is_url(url)
    assert resolve(url, Path("/w")) == url
