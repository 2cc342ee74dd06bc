"""A package that declares a measure is installed, and the measure is used by name."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = """
[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"
[project]
name = "our-measures"
version = "1"
[project.entry-points."moirae.measures"]
overlap = "our_measures:Overlap"
[tool.setuptools]
py-modules = ["our_measures"]
"""
MODULE = '''
import numpy as np


class Overlap:
    """The number of terms that both contexts have."""

    name = "overlap"

    def score_rows(self, query, past, counts):
        rows = np.repeat(np.arange(len(past)), np.diff(past.starts))
        return np.bincount(rows, np.isin(past.terms, query.terms), len(past)).astype(float)

    def term_contributions(self, query, past, counts):
        return np.isin(query.terms, past.terms).astype(float)
'''


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that the package is installed in."""
    source = tmp_path_factory.mktemp("source")
    (source / "pyproject.toml").write_text(PROJECT)
    (source / "our_measures.py").write_text(MODULE)
    target = tmp_path_factory.mktemp("packages")
    options = ("-q", "--no-deps", "--no-build-isolation", "--no-index", "--target", str(target))
    subprocess.run([sys.executable, "-m", "pip", "install", *options, str(source)], check=True)
    return target


def run_moirae(
    folder: Path, *arguments: str, packages: Path | None
) -> subprocess.CompletedProcess[str]:
    """`packages`: a folder of installed packages; None: without."""
    environment = {**os.environ, "PYTHONPATH": "" if packages is None else str(packages)}
    command = [sys.executable, "-m", "moirae", *arguments]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.slow
def test_events_are_ranked_by_a_measure_of_a_package(packages: Path, tmp_path: Path) -> None:
    """All have one term of three; the first and the third share two, with each other alone."""
    terms = [{"a=1": 1, "b=1": 1}, {"a=1": 1, "b=2": 1, "c=1": 1}, {"a=1": 1, "b=1": 1}]
    events = [
        {
            "event_id": f"e{hour}",
            "event_type": "t",
            "ts": f"2026-01-01T0{hour}:00:00Z",
            "facts": own,
        }
        for hour, own in enumerate(terms)
    ]
    (tmp_path / "events.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
    command = ("similarity", "run", "--events", "events.jsonl", "--measure", "overlap")
    result = run_moirae(tmp_path, *command, packages=packages)
    assert result.stdout.splitlines()[-2:] == ["e2,1,e0,2.0", "e2,2,e1,1.0"], result.stderr
    labels = "event_id,label\ne0,disk\ne1,cpu\ne2,disk\n"
    (tmp_path / "labels.csv").write_text(labels)
    options = ("--events", "events.jsonl", "--labels", "labels.csv", "-o", "json")
    command = ("similarity", "eval", "--measure", "overlap", *options)
    result = run_moirae(tmp_path, *command, packages=packages)
    (report,) = json.loads(result.stdout)
    assert report["measure"] == "overlap"
    assert report["rankers"]["overlap"]["p1"]["value"] == 1.0
    result = run_moirae(tmp_path, *command, packages=None)
    assert result.returncode == 2 and "unknown measure 'overlap'" in result.stderr


@pytest.mark.slow
def test_rule_may_name_a_measure_of_a_package(packages: Path, tmp_path: Path) -> None:
    assert run_moirae(tmp_path, "init", "workspace", packages=None).returncode == 0
    rules = tmp_path / "workspace" / "rules" / "example.yaml"
    rules.write_text(rules.read_text().replace("measure: learned ", "measure: overlap "))
    result = run_moirae(rules.parents[1], "rules", "check", packages=packages)
    assert result.returncode == 0, result.stderr
    result = run_moirae(rules.parents[1], "rules", "check", packages=None)
    assert result.returncode == 1 and "unknown measure 'overlap'" in result.stderr
