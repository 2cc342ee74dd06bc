"""`moirae setup`: what an installed package needs besides, once per installation."""

from pathlib import Path
from typing import Annotated

import typer
from rich.filesize import decimal


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
        bool,
        typer.Option(
            "--slim",
            help="First remove parts of packages that Moirae does not use, such as Spark's machine "
            "learning and tests: only in an environment of its own.",
        ),
    ] = False,
) -> None:
    """Install the jars of Delta and Kafka, and compile what starts faster then. Requires a JDK 17.

    What is complete is not installed again. Jars are verified by their SHA-256.
    """
    from archiver.spark import install
    from recall.similarity import compile_kernels

    if slim:
        print(f"removed {decimal(install.remove_unused())} of unused parts")
    exit_code = install.main(source)
    if exit_code == 0:
        compile_kernels()
    raise typer.Exit(exit_code)
