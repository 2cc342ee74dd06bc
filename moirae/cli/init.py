"""`init`: create a workspace with example rules and data."""

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
from moirae.examples import sample_rows


class ExampleWorkspace(StrEnum):
    """Workspaces over real data."""

    PLANETLAB = "planetlab"
    BGL = "bgl"


_NEXT_STEPS = """\
  cd {directory}
  moirae up --drain         # read all data, evaluate the rules, answer the recalls, then exit
  moirae alerts list        # the newest alerts and their IDs
  moirae similar ID         # the past alerts most like this one; the first characters of its ID are enough
  moirae recalls show ID    # the same, and what is normal there
Record what fixed a past alert; from then on `moirae similar` shows it:
  moirae alerts resolve ID "Restarted the collector." --tag restart"""

_EXAMPLE_FILES = {
    ExampleWorkspace.PLANETLAB: "cpu_*.csv.gz",
    ExampleWorkspace.BGL: "events.jsonl.gz",
}
# Where the data of examples lies beside a checkout.
_DATA_FOLDERS = (Path("../shared/data"), Path("../../shared/data"))


def init(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Directory to create.")],
    example: Annotated[
        ExampleWorkspace | None, typer.Option("--example", help="A workspace over real data.")
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(
            "--data",
            metavar="PATH",
            help="The folder with the example's own folder, such as planetlab, in it.",
        ),
    ] = None,
    days: Annotated[
        int | None, typer.Option("--days", min=1, help="Only so many days of it.")
    ] = None,
) -> None:
    """Create a workspace with commented configuration, example rules and data."""
    if (directory / FILE_NAME).exists():
        raise MoiraeError(f"{directory} has a {FILE_NAME} already; nothing was changed")
    if example is None and (data is not None or days is not None):
        raise UsageError("--data and --days go with --example")
    if days is not None and example is not ExampleWorkspace.PLANETLAB:
        raise UsageError("--days goes with --example planetlab")
    found = [] if example is None else _find_example_data(example, data)[:days]
    try:
        with as_file(files("moirae") / "examples" / (example or "first")) as template:
            shutil.copytree(template, directory, dirs_exist_ok=True)
        if example is None:
            _write_sample(directory / "landing", datetime.now(UTC))
        else:
            _link_files(found, directory / "landing")
    except OSError as error:
        raise MoiraeError(
            f"cannot make a workspace in {directory}: {error.strerror}: {error.filename}"
        ) from error
    print(
        f"Created a workspace in {directory}. Next:\n{_NEXT_STEPS.format(directory=shlex.quote(str(directory)))}"
    )


def _find_example_data(example: ExampleWorkspace, data: Path | None) -> list[Path]:
    places = (
        [data]
        if data is not None
        else [place for place in _DATA_FOLDERS if place.is_dir()] or [_DATA_FOLDERS[0]]
    )
    pattern = _EXAMPLE_FILES[example]
    found = sorted((places[0] / example).glob(pattern))
    if not found:
        raise MoiraeError(
            f"no data ({example}/{pattern}) in {places[0]}; name the folder that holds {example}/ with --data PATH"
        )
    return found


def _link_files(found: list[Path], landing: Path) -> None:
    landing.mkdir(parents=True, exist_ok=True)
    for path in found:
        (landing / path.name).unlink(missing_ok=True)
        (landing / path.name).symlink_to(path.resolve())


def _write_sample(landing: Path, now: datetime) -> None:
    """One file of sample data for each stream.

    It ends one to two hours before `now`: `up --drain` lets alerts run out beyond the last row, and rows that a user
    adds afterwards, with the present time, must not be late.
    """
    end = now.replace(minute=0, second=0, microsecond=0) - timedelta(hours=1)
    for name, rows in sample_rows(end).items():
        folder = landing / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "sample.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
