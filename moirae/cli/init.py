"""`init`: a workspace that runs."""

import json
import random
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
    """Workspaces over real data."""

    PLANETLAB = "planetlab"
    BGL = "bgl"


_EXAMPLE_FILES = {
    ExampleWorkspace.PLANETLAB: "cpu_*.csv.gz",
    ExampleWorkspace.BGL: "events.jsonl.gz",
}
# Where the data of examples lies beside a checkout.
_DATA_FOLDERS = (Path("../shared/data"), Path("../../shared/data"))


def init(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Where to make it.")],
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
    """Make a commented workspace that runs."""
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
            _write_sample(directory / "landing" / "cpu")
        else:
            _link_files(found, directory / "landing")
    except OSError as error:
        raise MoiraeError(
            f"cannot make a workspace in {directory}: {error.strerror}: {error.filename}"
        ) from error
    print(
        f"Made a workspace in {directory}. Next: cd {directory} && moirae up --drain && moirae alerts list"
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


def _write_sample(landing: Path) -> None:
    """Two hours of four hosts, once a minute: one is busy for a while, one falls silent."""
    landing.mkdir(parents=True, exist_ok=True)
    rng = random.Random(1)
    start = datetime.now(UTC).replace(second=0, microsecond=0) - timedelta(hours=2)
    lines = []
    for minute in range(120):
        for number, host in enumerate(("alpha", "beta", "gamma", "delta")):
            busy = host == "beta" and 30 <= minute < 45
            if host == "delta" and 60 <= minute < 85:
                continue
            ts = start + timedelta(minutes=minute, seconds=number)
            cpu = round(rng.uniform(92, 99) if busy else rng.uniform(10, 60), 1)
            lines.append(
                json.dumps({"ts": ts.isoformat().replace("+00:00", "Z"), "host": host, "cpu": cpu})
            )
    (landing / "sample.jsonl").write_text("\n".join(lines) + "\n")
