"""Globs of files."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archiver.globs import escape_glob, matches_part, parse_glob


def _matches(pattern: str, path: str) -> bool:
    for path_glob in parse_glob(pattern):
        parts = [part for part in path_glob.folder.split("/") if part] + list(path_glob.parts)
        names = path.strip("/").split("/")
        if len(parts) == len(names) and all(map(matches_part, parts, names)):
            return True
    return False


@pytest.mark.parametrize(
    ("pattern", "path", "matches"),
    [
        ("/in/*.csv", "/in/a.csv", True),
        ("/in/*.csv", "/in/_a\n.csv", True),
        ("/in/*.csv", "/in/.a.csv", False),
        ("/in/*.csv", "/in/b/a.csv", False),
        ("/in/*/x/?.csv", "/in/b/x/a.csv", True),
        ("/in/[ab]*", "/in/b.csv", True),
        ("/in/[!ab]*", "/in/b.csv", False),
        ("/in/[^ab]*", "/in/c.csv", True),
        ("/in/[a-c]", "/in/b", True),
        ("/in/[z-a]", "/in/b", False),
        ("/in/{a,b}/*.csv", "/in/b/1.csv", True),
        ("/{in,out/{x,y}}/1", "/out/y/1", True),
        ("/in/{a,b", "/in/{a,b", True),
        ("/in/[{]a,b}", "/in/{a,b}", True),
        ("/in/\\*.csv", "/in/*.csv", True),
        ("/in/\\*.csv", "/in/a.csv", False),
        ("/in/[a", "/in/[a", True),
        ("/in/./x/../*.csv", "/in/a.csv", True),
        ("/in/a.csv", "/in/a.csv", True),
    ],
)
def test_glob_matches_as_a_shell_does(pattern: str, path: str, matches: bool) -> None:
    assert _matches(pattern, path) is matches


def test_folder_is_above_the_first_wildcard() -> None:
    folders = [path_glob.folder for path_glob in parse_glob("/in/{a,b}/[[]x]/*/*.csv")]
    assert folders == ["/in/a/[x]", "/in/b/[x]"]
    assert [path_glob.folder for path_glob in parse_glob("/*.csv")] == ["/"]


@given(st.text(st.sampled_from("ab*?[]{},\\!^-.\n"), min_size=1).filter(lambda name: name != ".."))
def test_escaped_path_matches_itself_only(name: str) -> None:
    path = os.path.normpath(f"/in/{name}/x.csv")
    (path_glob,) = parse_glob(escape_glob(path))
    assert path_glob.folder + "/" + "/".join(map(str, path_glob.parts)) == path
