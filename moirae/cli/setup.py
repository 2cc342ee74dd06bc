"""`moirae setup`: what an installed package needs besides, once per installation."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.filesize import decimal

_SHOWN_PACKAGES = 3


def setup(
    source: Annotated[
        Path | None,
        typer.Option(
            "--from",
            metavar="FOLDER",
            help="Folder with the jars, for a machine without network, such as `share/moirae/jars` "
            "of another installation. Default: download them.",
        ),
    ] = None,
    slim: Annotated[
        bool | None,
        typer.Option(
            "--slim/--no-slim",
            help="First remove parts of packages that Moirae does not use, such as Spark's machine "
            "learning and tests. Default: only where the environment has no other packages.",
        ),
    ] = None,
    classes: Annotated[
        Literal["start", "work", "none"],
        typer.Option(
            "--class-archive",
            help="Which classes are archived for faster starts: those of a start of Spark (70 MB), "
            "or also those of typical work (190 MB), or none.",
        ),
    ] = "start",
) -> None:
    """Install the jars of Delta and Kafka, and compile what starts faster then. Requires a JDK 17.

    What is complete is not installed again. Jars are verified by their SHA-256.
    """
    from archiver.spark import install, unused_parts
    from recall.similarity import compile_kernels

    other_packages = unused_parts.list_other_packages() if slim is None else []
    if other_packages:
        print(
            f"nothing is removed: the environment also has {_name_some(other_packages)} (--slim "
            "removes what Moirae does not use)"
        )
    elif slim is not False:
        print(f"removed {decimal(unused_parts.remove_unused())} of parts that Moirae does not use")
    exit_code = install.main(source, classes)
    if exit_code == 0:
        compile_kernels()
    raise typer.Exit(exit_code)


def _name_some(packages: Sequence[str]) -> str:
    names = ", ".join(packages[:_SHOWN_PACKAGES])
    omitted = len(packages) - _SHOWN_PACKAGES
    return f"{names} and {omitted} more packages" if omitted > 0 else names
