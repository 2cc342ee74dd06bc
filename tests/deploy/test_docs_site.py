"""The site of the documentation is built without a network, and loads nothing from other servers."""

import os
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.deploy import ROOT

# Attributes of elements that a browser loads by itself; links of <a> are for the reader.
_LOADED = {
    ("script", "src"),
    ("link", "href"),
    ("img", "src"),
    ("iframe", "src"),
    ("source", "src"),
}
_OFFLINE = """
import socket, sys
def refuse(*arguments, **options):
    raise OSError("the build used the network")
socket.socket.connect = socket.socket.connect_ex = socket.getaddrinfo = refuse
from mkdocs.__main__ import cli
cli(["build", "--strict", "--quiet", "--site-dir", sys.argv[1]])
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site. Unknown links and anchors, and pages that are not in `nav`, are errors."""
    target = tmp_path_factory.mktemp("site")
    subprocess.run(
        [sys.executable, "-c", _OFFLINE, str(target)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        check=True,
    )
    return target


class _Loads(HTMLParser):
    """Collects the addresses that a page loads."""

    def __init__(self) -> None:
        super().__init__()
        self.urls: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        if attributes.get("rel") == "canonical":
            return
        self.urls += [value for name, value in attrs if (tag, name) in _LOADED and value]


def test_each_page_is_built(site: Path) -> None:
    pages = {path.relative_to(ROOT / "docs") for path in ROOT.glob("docs/*/*.md")}
    missing = [page for page in pages if not (site / page.with_suffix("") / "index.html").exists()]
    assert missing == []
    assert (site / "index.html").exists()


def test_pages_load_nothing_from_other_servers(site: Path) -> None:
    urls = set()
    for page in site.rglob("*.html"):
        parser = _Loads()
        parser.feed(page.read_text(encoding="utf-8"))
        urls |= set(parser.urls)
    assert len(urls) > 3
    assert [url for url in urls if "//" in url] == []
    styles = "".join(path.read_text() for path in site.rglob("*.css"))
    assert "url(http" not in styles
    assert "url(//" not in styles


def test_published_schemas_are_part_of_the_site(site: Path) -> None:
    for name in ("rules.schema.json", "workspace.schema.json"):
        assert (site / "schema" / name).read_bytes() == (
            ROOT / "docs" / "schema" / name
        ).read_bytes()
