"""The built dashboard belongs to its sources."""

import re
import shutil
from pathlib import Path

import orjson
import pytest

from moirae.dashboard import build

PAGE = build.STATIC / "index.html"


def write_sources(web: Path) -> None:
    for name in build._SOURCE_FILES:
        (web / name).write_text("a")
    for folder in build._SOURCE_FOLDERS:
        (web / folder).mkdir()
    (web / "src" / "main.tsx").write_text("b")


def test_built_files_belong_to_the_sources() -> None:
    assert build.main(["--check"]) == 0


def test_changed_source_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    hash_file = tmp_path / "sources.sha256"
    hash_file.write_text("0" * 64)
    monkeypatch.setattr(build, "HASH_FILE", hash_file)
    assert build.main(["--check"]) == 1
    assert "make web" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["src/main.tsx", "src/new.ts", "package-lock.json"])
def test_hash_depends_on_each_source(tmp_path: Path, name: str) -> None:
    write_sources(tmp_path)
    before = build.hash_sources(tmp_path)
    (tmp_path / name).write_text("changed")
    assert build.hash_sources(tmp_path) != before


def test_hash_ignores_installed_packages(tmp_path: Path) -> None:
    write_sources(tmp_path)
    before = build.hash_sources(tmp_path)
    (tmp_path / "node_modules").mkdir()
    (tmp_path / "node_modules" / "a.js").write_text("a")
    assert build.hash_sources(tmp_path) == before


def test_page_has_no_inline_code_and_names_existing_files() -> None:
    page = PAGE.read_text()
    assert not re.search(r"<style|style=|<script(?![^>]*\bsrc=)|\son\w+=", page)
    names = re.findall(r'(?:src|href)="/static/([^"]+)"', page)
    assert len(names) >= 3
    for name in names:
        assert (build.STATIC / name).is_file()


def test_nothing_is_loaded_from_other_hosts() -> None:
    for style_sheet in build.STATIC.glob("*.css"):
        assert not re.search(r"url\(|@import", style_sheet.read_text())


def test_lock_file_names_no_registry() -> None:
    lock = orjson.loads((build.WEB / "package-lock.json").read_bytes())
    for name, package in lock["packages"].items():
        assert "resolved" not in package, name
        assert not name or package.get("integrity"), name


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("npx") is None, reason="Node is not installed")
def test_fresh_build_equals_the_committed_files(tmp_path: Path) -> None:
    static, types = tmp_path / "static", tmp_path / "schema.d.ts"
    build.build(static)
    assert _contents(static) == _contents(build.STATIC)
    build.write_types(types)
    assert types.read_text() == build.TYPES.read_text()


def _contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}
