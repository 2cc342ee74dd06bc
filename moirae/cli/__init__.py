"""The command line: one module for each group of commands.

Modules of this folder import other parts of Moirae inside functions, so that a command loads only
what it needs: `moirae --help` takes as long as its imports.
"""

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from moirae import __version__
from moirae.cli import (
    alerts,
    archive,
    audit,
    backup,
    chunks,
    cluster,
    dead_letters,
    doctor,
    events,
    export,
    feedback,
    forecasts,
    import_prometheus,
    incidents,
    ingest,
    init,
    mcp,
    processes,
    query,
    recall_control,
    recalls,
    receivers,
    relations,
    replay,
    routes,
    rules,
    set_aside,
    setup,
    silence,
    similarity,
    status,
    streams,
    tags,
    tokens,
    upgrade,
)
from moirae.cli.options import describe_invalid_value
from moirae.cli.processes import EXIT_INTERNAL_ERROR
from moirae.cli.remote import accept_server

__all__ = [
    "EXIT_INTERNAL_ERROR",
    "app",
]


class _MoiraeGroup(TyperGroup):
    """The root command. Invalid values of options are reported in the words of Moirae."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except typer.BadParameter as error:
            error.message = describe_invalid_value(error.message)
            raise


app = typer.Typer(
    name="moirae",
    cls=_MoiraeGroup,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(is_requested: bool) -> None:
    if is_requested:
        print(f"moirae {__version__}")
        raise typer.Exit


@app.callback()
def _handle_global_options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """History-enhanced monitoring: alert rules over live streams and their archive."""


app.command("demo")(processes.demo)
app.command("init")(init.init)
app.command("up")(processes.up)
app.add_typer(processes.run_app, name="run")
app.add_typer(rules.app, name="rules")
app.add_typer(events.app, name="events")
app.add_typer(alerts.app, name="alerts")
app.add_typer(incidents.app, name="incidents")
app.add_typer(tags.app, name="tags")
app.command("similar")(accept_server(recalls.similar))
app.add_typer(recalls.app, name="recalls")
recalls.app.command("repeat")(replay.repeat)
for verb, command in recall_control.COMMANDS.items():
    app.command(verb)(accept_server(command))
app.command("query")(accept_server(query.query))
app.add_typer(chunks.app, name="chunks")
app.add_typer(archive.app, name="archive")
app.add_typer(cluster.app, name="cluster")
app.add_typer(streams.app, name="streams")
app.add_typer(dead_letters.app, name="dead-letters")
app.add_typer(set_aside.app, name="set-aside")
app.add_typer(relations.app, name="relations")
app.add_typer(receivers.app, name="receivers")
receivers.app.command("list")(accept_server(receivers.list_receivers))
receivers.app.command("messages")(accept_server(receivers.list_messages))
receivers.app.command("test")(accept_server(receivers.send_test_message))
receivers.app.command("preview")(accept_server(receivers.preview_message))
receivers.app.command("revoke-links")(accept_server(receivers.revoke_links))
app.add_typer(routes.app, name="routes")
routes.app.command("show")(accept_server(routes.show_routes))
routes.app.command("test")(accept_server(routes.match_labels))
routes.app.command("import")(routes.import_configuration)
app.add_typer(silence.app, name="silence")
app.command("ingest")(accept_server(ingest.ingest))
app.add_typer(import_prometheus.app, name="import")
app.add_typer(tokens.app, name="tokens")
app.add_typer(similarity.app, name="similarity")
similarity.app.command("eval")(accept_server(feedback.evaluate))
similarity.app.command("ask")(accept_server(feedback.ask))
similarity.app.command("forecasts")(accept_server(forecasts.list_records))
similarity.app.command("agree")(accept_server(feedback.agree))
similarity.app.command("disagree")(accept_server(feedback.disagree))
similarity.app.command("withdraw")(accept_server(feedback.withdraw))
app.add_typer(export.app, name="export")
app.command("mcp")(mcp.mcp)
app.command("status")(accept_server(status.status))
app.command("audit")(accept_server(audit.audit))
app.command("doctor")(doctor.doctor)
app.add_typer(backup.app, name="backup")
app.command("restore")(backup.restore)
app.command("setup")(setup.setup)
app.command("upgrade")(upgrade.upgrade)
