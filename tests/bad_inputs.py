"""Adversarial inputs: of the project, and those beside the checkout, if they are there."""

import json
from pathlib import Path
from typing import Any

_FILES = (
    Path(__file__).parent / "bad_inputs.jsonl",
    Path(__file__).parents[2] / "shared" / "bad_inputs.jsonl",
)
FILES = [file for file in _FILES if file.is_file()]


def read(file: Path, surface: str) -> list[Any]:
    """The inputs of a file for one surface, such as `rule_sql`, in order of the file."""
    lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    return [line["input"] for line in lines if line["surface"] == surface]


def read_all(surface: str) -> list[Any]:
    """The inputs of all files for one surface."""
    return [entry for file in FILES for entry in read(file, surface)]
