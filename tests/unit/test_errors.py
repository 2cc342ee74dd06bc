"""Each package has one tree of errors."""

import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from types import ModuleType

import pytest

import archiver
import moirae
import recall
import sql
from archiver.errors import ArchiverError
from moirae.errors import MoiraeError
from recall.errors import RecallError

TREES = [(archiver, ArchiverError), (recall, RecallError), (moirae, MoiraeError)]


def _errors(package: ModuleType) -> Iterator[type[BaseException]]:
    """The exceptions that modules of a package define."""
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        for _, found in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
            if issubclass(found, BaseException) and found.__module__ == module.name:
                yield found


@pytest.mark.parametrize(("package", "base"), TREES)
def test_all_errors_of_a_package_have_one_base(package: ModuleType, base: type[Exception]) -> None:
    found = set(_errors(package))
    assert len(found) > 5
    assert {error for error in found if not issubclass(error, base)} == set()
    assert base.__mro__[1] is Exception


@pytest.mark.parametrize(("package", "base"), TREES)
def test_errors_that_others_catch_are_in_the_module_of_errors(
    package: ModuleType, base: type[Exception]
) -> None:
    """But for those that take apart what only their module knows."""
    elsewhere = {
        error.__name__ for error in _errors(package) if error.__module__ != base.__module__
    }
    assert {name for name in elsewhere if not name.startswith("_")} <= {
        "Unsupported",
        "Unsplittable",
    }


def test_the_package_of_gateways_raises_errors_of_psycopg_and_two_of_its_own() -> None:
    assert list(_errors(sql)) == [sql.SchemaTooNew, sql.UpgradeRequired]
