"""Workspace files of the tests of this folder."""

from pathlib import Path

import pytest

from moirae.config.settings import Settings, load_settings
from moirae.errors import ProblemsError

STREAM = """\
streams:
  cpu:
    columns: {ts: timestamp, host: string}
    time: ts
    source: {http: true}
"""


def load(folder: Path, text: str, **environ: str) -> Settings:
    (folder / "moirae.yaml").write_text(text, encoding="utf-8")
    return load_settings(folder / "moirae.yaml", environ)


def load_problems(folder: Path, text: str, **environ: str) -> list[str]:
    with pytest.raises(ProblemsError) as caught:
        load(folder, text, **environ)
    return [
        str(problem).removeprefix(f"{folder}/moirae.yaml:") for problem in caught.value.problems
    ]
