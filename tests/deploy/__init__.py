"""The files of `deploy/`: no container engine is needed, each is checked by what can check it."""

from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"


def read_yaml(file: Path) -> Any:
    """The only document of a file, with its anchors resolved."""
    return YAML(typ="safe").load(file)
