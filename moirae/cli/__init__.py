"""The command line: one module for each group of commands."""

from moirae.cli.processes import EXIT_INTERNAL_ERROR

__all__ = [
    "EXIT_INTERNAL_ERROR",
]

import typer

from moirae.cli import (
    alerts,
    archive,
    events,
    export,
    ingest,
    init,
    processes,
    recalls,
    rules,
    similarity,
    tokens,
)
from moirae.cli import feedback as similarity_eval
from moirae.cli import recall_commands as control
from moirae.cli import replay as repeat

app = typer.Typer(
    name="moirae",
    help="History-enhanced monitoring: rules over live streams, and everything they read kept as an archive.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("demo")(processes.demo)
app.command("init")(init.init)
app.command("up")(processes.up)
app.add_typer(processes.run_app, name="run")
app.add_typer(rules.app, name="rules")
app.add_typer(events.app, name="events")
app.add_typer(alerts.app, name="alerts")
app.command("similar")(recalls.similar)
app.add_typer(recalls.app, name="recalls")
recalls.app.command("repeat")(repeat.repeat)
for verb, command in control.COMMANDS.items():
    app.command(verb)(command)
app.add_typer(archive.chunks_app, name="chunks")
app.add_typer(archive.streams_app, name="streams")
app.add_typer(archive.dead_letters_app, name="dead-letters")
app.command("ingest")(ingest.ingest)
app.add_typer(tokens.app, name="tokens")
app.add_typer(similarity.app, name="similarity")
similarity.app.command("eval")(similarity_eval.evaluate)
similarity.app.command("agree")(similarity_eval.agree)
similarity.app.command("disagree")(similarity_eval.disagree)
app.add_typer(export.app, name="export")
app.command("status")(archive.status)
app.command("doctor")(archive.doctor)
