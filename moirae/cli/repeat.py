"""`recalls repeat`: an answer computed again from what was stored with it."""

from pathlib import Path
from typing import Annotated

import typer

from moirae.cli.options import WORKSPACE, Output, OutputOption, Workspace, database, print_json, print_table
from moirae.cli.recalls import one
from moirae.errors import UsageError

Id = Annotated[str, typer.Argument(metavar="ID", help="Of the event or its alert, or how it begins.")]

_WORDS = {True: "the same", False: "DIFFERENT", None: "expired"}


def repeat(eid: Id, workspace: Workspace = WORKSPACE, output: OutputOption = Output.TABLE) -> None:
    """Compute the similarity answers about an event again. Exit code 1 if they differ."""
    from recall.corpora import Corpora
    from recall.repeating import repeat as again

    with database(workspace) as (settings, connection):
        number = one(connection, eid)
        found = list(again(connection, Corpora(connection, Path(settings.archive)), number))
    if not found:
        raise UsageError(f"event {number} has no similarity answer to repeat")
    if output is Output.JSON:
        print_json([vars(answer) for answer in found])
    else:
        rows = [(a.recall, a.revision, _WORDS[a.equal], len(a.answer), a.corpus, a.version, a.why or "") for a in found]
        print_table(("recall", "revision", "answer", "hits", "corpus", "rule version", "why"), rows, "")
    if any(answer.equal is False for answer in found):
        raise typer.Exit(1)
