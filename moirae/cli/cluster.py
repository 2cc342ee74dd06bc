"""`moirae cluster`: several machines of one workspace."""

import typer

from moirae.cli.options import (
    DEFAULT_WORKSPACE,
    OutputFormat,
    OutputOption,
    WorkspaceOption,
    print_json,
)

app = typer.Typer(help="Run a workspace on several machines.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    """Run a workspace on several machines."""


@app.command()
def accept(
    workspace: WorkspaceOption = DEFAULT_WORKSPACE, output: OutputOption = OutputFormat.TABLE
) -> None:
    """Make this workspace file the reference with which processes of all machines start."""
    from moirae.config import load_settings_from_environment
    from moirae.runtime import accept_shared_values, connect_database, release_database

    settings = load_settings_from_environment(workspace)
    try:
        with connect_database(settings, "cluster") as connection:
            keys = accept_shared_values(settings, connection)
    finally:
        release_database(settings)
    if output is OutputFormat.JSON:
        print_json({"changed": list(keys)})
    elif keys:
        print(f"accepted: {', '.join(keys)}. Restart the processes of other machines")
    else:
        print("accepted: nothing changes")
