"""Parts of packages that are not used at run time, and whether they may be removed from an
environment.
"""

import re
import shutil
from collections.abc import Iterable
from importlib.metadata import Distribution, PackageNotFoundError, distribution, distributions
from pathlib import Path

_PATTERNS = Path(__file__).parent / "unused.txt"
DISTRIBUTION = "moirae-monitoring"
# Extras of those who change Moirae: their tools may use what Moirae does not.
_DEVELOPER_EXTRAS = frozenset({"dev", "docs"})
# What each virtual environment may have.
_INSTALLERS = frozenset({"pip", "setuptools", "wheel"})
_REQUIREMENT = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)\s*(?:\[([^]]*)\])?")
_EXTRA = re.compile(r"""extra\s*==\s*['"]([^'"]+)['"]""")


def list_other_packages() -> list[str]:
    """The packages of the environment that Moirae has not brought: it is not for Moirae alone."""
    own = _list_required(DISTRIBUTION) | _INSTALLERS
    installed = {_normalize(package.metadata["Name"]) for package in distributions()}
    return sorted(installed - own)


def remove_unused() -> int:
    """Remove the parts that `unused.txt` names with reasons; returns how many bytes."""
    import pyspark

    root = Path(pyspark.__file__).parent.parent
    size = 0
    for path in list_unused(root):
        files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
        size += sum(file.lstat().st_size for file in files)
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
    return size


def list_unused(site_packages: Path) -> list[Path]:
    """The files and folders that the patterns match, each once, none of them within another."""
    matched: list[Path] = []
    for pattern in read_patterns():
        matched += sorted(site_packages.glob(pattern))
    paths = dict.fromkeys(matched)
    return [path for path in paths if not any(parent in paths for parent in path.parents)]


def read_patterns() -> list[str]:
    """The patterns of `unused.txt`, relative to site-packages."""
    lines = _PATTERNS.read_text().splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def _list_required(name: str) -> set[str]:
    """A package, and all that it brings, with those of its extras that are for users."""
    required: set[str] = set()
    waiting: list[tuple[str, frozenset[str] | None]] = [(_normalize(name), None)]
    visited: set[tuple[str, frozenset[str] | None]] = set()
    while waiting:
        package, extras = waiting.pop()
        if (package, extras) in visited:
            continue
        visited.add((package, extras))
        required.add(package)
        try:
            waiting += _list_direct(distribution(package), extras)
        except PackageNotFoundError:
            continue  # of an extra, or of another platform
    return required


def _list_direct(
    package: Distribution, extras: frozenset[str] | None
) -> Iterable[tuple[str, frozenset[str]]]:
    """What a package requires, by name with extras. `extras`: the wanted ones; None: all for users."""
    for text in package.requires or ():
        requirement = _REQUIREMENT.match(text)
        assert requirement is not None, text
        extra = _EXTRA.search(text)
        if extra is not None:
            is_wanted = extra[1] not in _DEVELOPER_EXTRAS if extras is None else extra[1] in extras
            if not is_wanted:
                continue
        names = filter(None, map(str.strip, (requirement[2] or "").split(",")))
        yield _normalize(requirement[1]), frozenset(names)


def _normalize(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
