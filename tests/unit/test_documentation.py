"""Links and paths in the documentation."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])

_CODE_BLOCK = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
# A path of this repository in code font, such as `archiver/delta/log.py`.
_PATH = re.compile(r"`((?:moirae|recall|archiver|sql|tests|benchmarks)/[\w/]+(?:\.\w+)?)/?`")


@pytest.fixture(params=PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def page(request: pytest.FixtureRequest) -> Path:
    path: Path = request.param
    return path


def test_links_lead_to_existing_pages_and_headings(page: Path) -> None:
    assert [link for link in _relative_links(page) if not _exists(page, link)] == []


def test_named_modules_and_tests_exist(page: Path) -> None:
    named = _PATH.findall(page.read_text(encoding="utf-8"))
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_lines_outside_tables_have_at_most_100_characters() -> None:
    for page in ROOT.glob("docs/**/*.md"):
        lines = page.read_text(encoding="utf-8").splitlines()
        assert [line for line in lines if len(line) > 100 and not line.startswith("|")] == [], page


def test_every_page_is_listed_in_the_index() -> None:
    index = ROOT / "docs" / "README.md"
    listed = {(index.parent / link.partition("#")[0]).resolve() for link in _relative_links(index)}
    pages = {page for page in PAGES if page.is_relative_to(index.parent) and page != index}
    assert pages - listed == set()


def _relative_links(page: Path) -> Iterator[str]:
    for link in _LINK.findall(_prose(page)):
        if not link.startswith(("http://", "https://")):
            yield link


def _exists(page: Path, link: str) -> bool:
    path, _, anchor = link.partition("#")
    target = (page.parent / path).resolve() if path else page
    if not anchor:
        return target.exists()
    return target.is_file() and anchor in {
        _anchor(text) for text in _HEADING.findall(_prose(target))
    }


def _anchor(heading: str) -> str:
    """The anchor that Markdown viewers give a heading."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def _prose(page: Path) -> str:
    return _CODE_BLOCK.sub("", page.read_text(encoding="utf-8"))
