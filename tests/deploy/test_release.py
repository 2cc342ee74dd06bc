"""The parts of a release."""

import json
import subprocess
import sys

import pytest

from deploy.release.parts import list_jars, list_packages
from deploy.release.tag import find_obstacle
from tests.deploy import ROOT


def test_bill_of_materials_names_each_package_and_jar_with_hashes() -> None:
    output = subprocess.run(
        [sys.executable, "-m", "deploy.release.parts"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    document = json.loads(output)
    names = {component["name"] for component in document["components"]}
    assert {"pyspark", "deltalake", "kafka-clients", "delta-spark_4.2_2.13"} <= names
    assert all(component["hashes"] for component in document["components"])
    references = [component["bom-ref"] for component in document["components"]]
    assert len(references) == len(set(references))
    assert document["metadata"]["component"]["name"] == "moirae-monitoring"


def test_lines_of_lock_files_are_read() -> None:
    digest = "0" * 64
    lock = f"a-b[c]==1.2 ; python_version > '3' \\\n    --hash=sha256:{digest}\n    # via x\n"
    (package,) = list_packages(lock)
    assert (package["name"], package["version"]) == ("a-b", "1.2")
    assert package["hashes"] == [{"alg": "SHA-256", "content": digest}]
    (jar,) = list_jars(f"# comment\n{digest} org.z_x-y_2.13-1.0.jar\n")
    assert jar["purl"] == "pkg:maven/org.z/x-y_2.13@1.0"


@pytest.mark.parametrize(
    ("changelog", "changed", "wheels", "message"),
    [
        ("## 1.2.0, unreleased\n", "", ["moirae_monitoring-1.2.0-py3.whl"], "write the date"),
        ("## 1.2.0, 2026-12-01\n", " M x\n", ["moirae_monitoring-1.2.0-py3.whl"], "commit all"),
        ("## 1.2.0, 2026-12-01\n", "", ["moirae_monitoring-1.1.0-py3.whl"], "no wheel"),
        ("# C\n## 1.2.0, 2026-12-01\n\n## 1.1\n", "", ["moirae_monitoring-1.2.0-py3.whl"], None),
    ],
)
def test_release_is_tagged_when_it_is_complete(
    changelog: str, changed: str, wheels: list[str], message: str | None
) -> None:
    obstacle = find_obstacle("1.2.0", changelog, changed, wheels)
    assert obstacle is message is None or message in (obstacle or "")
