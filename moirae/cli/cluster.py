"""`moirae cluster`: several machines of one workspace."""

import typer

from moirae.cli.doctor import end_with_findings
from moirae.cli.options import (
    DEFAULT_WORKSPACE,
    OutputFormat,
    OutputOption,
    WorkspaceOption,
    open_workspace,
    print_json,
)

app = typer.Typer(help="Run a workspace on several machines.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    """Run a workspace on several machines."""


@app.command()
def check(
    workspace: WorkspaceOption = DEFAULT_WORKSPACE, output: OutputOption = OutputFormat.TABLE
) -> None:
    """Verify what a workspace on several machines needs. Exit code 1 if something is missing.

    A task on each core of the live process's executors tries the bucket with that executor's
    credentials and compares versions and clocks. It takes cores like a process: stop the workspace
    first if it has all of them.
    """
    from moirae.inspect import check_cluster

    with open_workspace(workspace) as (settings, connection):
        findings = check_cluster(settings, connection)
    end_with_findings(findings, output)


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
