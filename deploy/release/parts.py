"""`python -m deploy.release.parts`: the parts of a release, as a bill of materials (CycloneDX 1.5)."""

import json
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
_REQUIREMENT = re.compile(r"^([A-Za-z0-9_.-]+)(?:\[[^]]*\])?==([^ ;\\]+)")
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")


def list_packages(lock: str) -> list[dict[str, Any]]:
    """The Python packages of a lock file; each wheel of a version has a hash of its own."""
    components: list[dict[str, Any]] = []
    for line in lock.splitlines():
        requirement = _REQUIREMENT.match(line)
        if requirement is not None:
            name, version = requirement[1], requirement[2]
            purl = f"pkg:pypi/{name.lower()}@{version}"
            component = {"type": "library", "name": name, "version": version, "purl": purl}
            components.append({**component, "bom-ref": purl, "hashes": []})
        elif components:
            for digest in _HASH.findall(line):
                components[-1]["hashes"].append({"alg": "SHA-256", "content": digest})
    return components


def list_jars(lock: str) -> list[dict[str, Any]]:
    """The jars of `jars.lock`, which are named as Ivy names them: GROUP_ARTIFACT-VERSION."""
    components: list[dict[str, Any]] = []
    for line in lock.splitlines():
        if line and not line.startswith("#"):
            digest, name = line.split()
            group, _, rest = name.removesuffix(".jar").partition("_")
            artifact, _, version = rest.rpartition("-")
            purl = f"pkg:maven/{group}/{artifact}@{version}"
            hashes = [{"alg": "SHA-256", "content": digest}]
            component = {"type": "library", "group": group, "name": artifact, "version": version}
            components.append({**component, "purl": purl, "bom-ref": purl, "hashes": hashes})
    return components


def main() -> None:
    """Print the bill of materials."""
    version = re.search(r'__version__ = "(.*)"', (ROOT / "moirae" / "__init__.py").read_text())
    assert version is not None
    components = [
        *list_packages((ROOT / "deploy" / "container" / "requirements.lock").read_text()),
        *list_jars((ROOT / "archiver" / "spark" / "jars.lock").read_text()),
    ]
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "name": "moirae-monitoring",
                "version": version[1],
                "bom-ref": "moirae-monitoring",
            }
        },
        "components": components,
    }
    json.dump(document, sys.stdout, indent=1)


if __name__ == "__main__":
    main()
