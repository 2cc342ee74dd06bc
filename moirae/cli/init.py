"""`moirae init`: create a workspace with example rules and data."""

import json
import shlex
import shutil
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from importlib.resources import as_file, files
from pathlib import Path
from typing import Annotated

import typer

from moirae.config import FILE_NAME
from moirae.errors import MoiraeError, UsageError


class ExampleWorkspace(StrEnum):
    """Example workspaces: over public data sets, and with rules that were imported."""

    PLANETLAB = "planetlab"
    BGL = "bgl"
    SIGMA = "sigma"


_NEXT_STEPS = """\
  cd {directory}
  moirae up --drain         # read all data, evaluate the rules, answer the recalls, then exit
  moirae alerts list        # the newest alerts and their IDs
  moirae similar ID         # the most similar past alerts; the first characters of the ID suffice
  moirae recalls show ID    # all answers about the alert, with its normal values
Record what fixed a past alert; from then on `moirae similar` shows it:
  moirae alerts resolve ID "Restarted the collector." --tag restart"""

_NEXT_STEPS_OF_SIGMA = """\
  cd {directory}
  moirae up --drain         # read all data, evaluate the rules, then exit
  moirae alerts list --all  # what the rules found
Import another version of the Sigma files (requires the extra `sigma`):
  moirae rules import-sigma sigma --stream windows --map sigma_map.yaml"""

# Data files of the examples that do not bring their own, in a folder with the name of the example.
_FILE_PATTERNS = {
    ExampleWorkspace.PLANETLAB: "cpu_*.csv.gz",
    ExampleWorkspace.BGL: "events.jsonl.gz",
}
# Where the data of examples is looked for, relative to the current folder.
_DATA_FOLDERS = (Path("../shared/data"), Path("../../shared/data"))


def init(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Directory to create.")],
    example: Annotated[
        ExampleWorkspace | None,
        typer.Option(
            "--example",
            help="Create an example workspace: over a public data set, or with Sigma rules.",
        ),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(
            "--data",
            metavar="PATH",
            help="Directory that contains the data directory of the example, such as planetlab. "
            f"Default: {_DATA_FOLDERS[0]} or {_DATA_FOLDERS[1]}.",
        ),
    ] = None,
    days: Annotated[
        int | None, typer.Option("--days", min=1, help="Number of days of data to use.")
    ] = None,
) -> None:
    """Create a workspace with commented configuration, example rules and data."""
    if (directory / FILE_NAME).exists():
        raise MoiraeError(f"{directory / FILE_NAME}: file exists; nothing was changed")
    if example is None and (data is not None or days is not None):
        raise UsageError("--data and --days require --example")
    if days is not None and example is not ExampleWorkspace.PLANETLAB:
        raise UsageError("--days requires --example planetlab")
    has_data = example in _FILE_PATTERNS
    if data is not None and not has_data:
        raise UsageError(f"--data is not for --example {example}, which brings its data")
    data_files: list[Path] = []
    if example is not None and has_data:
        data_files = _find_example_data(example, data)[:days]
    try:
        with as_file(files("moirae") / "examples" / (example or "first")) as template:
            ignored = shutil.ignore_patterns(FILE_NAME)
            shutil.copytree(template, directory, ignore=ignored, dirs_exist_ok=True)
            if example is None:
                _write_sample(directory / "landing", datetime.now(UTC))
            elif has_data:
                _link_files(data_files, directory / "landing")
            # Last and at once: without this file, `init` can be repeated after a failure.
            incomplete = directory / f".{FILE_NAME}.incomplete"
            shutil.copy2(template / FILE_NAME, incomplete)
            incomplete.rename(directory / FILE_NAME)
    except shutil.Error as error:  # of `copytree`: (source, target, reason) of each file
        _, path, reason = error.args[0][0]
        raise MoiraeError(f"{path}: cannot create workspace: {reason}") from error
    except OSError as error:
        path = error.filename or directory
        raise MoiraeError(f"{path}: cannot create workspace: {error.strerror or error}") from error
    print(f"Created a workspace in {directory}. Next:")
    next_steps = _NEXT_STEPS_OF_SIGMA if example is ExampleWorkspace.SIGMA else _NEXT_STEPS
    print(next_steps.format(directory=shlex.quote(str(directory))))


def _find_example_data(example: ExampleWorkspace, data: Path | None) -> list[Path]:
    """The data files of an example by name. Raises `MoiraeError` where there are none."""
    folder = data or next(filter(Path.is_dir, _DATA_FOLDERS), _DATA_FOLDERS[0])
    pattern = _FILE_PATTERNS[example]
    data_files = sorted((folder / example).glob(pattern))
    if not data_files:
        raise MoiraeError(
            f"{folder / example}: no file {pattern}; "
            f"set --data to the directory that contains {example}/"
        )
    return data_files


def _link_files(data_files: list[Path], landing: Path) -> None:
    landing.mkdir(parents=True, exist_ok=True)
    for path in data_files:
        (landing / path.name).unlink(missing_ok=True)
        (landing / path.name).symlink_to(path.resolve())


def _write_sample(landing: Path, now: datetime) -> None:
    """Write a file of sample data for each stream.

    It ends one to two hours before `now`: `up --drain` lets alerts end beyond the last row, and
    rows that a user adds afterwards, with the present time, must not be late.
    """
    from moirae.examples import sample_rows

    end = now.replace(minute=0, second=0, microsecond=0) - timedelta(hours=1)
    for name, rows in sample_rows(end).items():
        folder = landing / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "sample.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
