"""`moirae tags`: the tags of resolutions, what became of their alerts, and their names."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from moirae.cli.options import (
    DEFAULT_WORKSPACE,
    AuthorOption,
    OutputFormat,
    OutputOption,
    RuleOption,
    WorkspaceOption,
    format_count,
    print_json,
    print_table,
    to_seconds,
)
from moirae.cli.pages import make_query
from moirae.cli.remote import RemoteTyper, open_services

if TYPE_CHECKING:
    from moirae.services.operations.fixes import RenamedTags, TagSummary

app = RemoteTyper(
    help="List tags of resolutions with what became of their alerts; rename and merge them.",
    no_args_is_help=True,
)


@app.command("list")
def list_(
    rule: RuleOption = None,
    within: Annotated[
        str,
        typer.Option(
            "--within",
            metavar="DURATION",
            help="An alert of the same key that fires so soon after the end means that it came "
            "back.",
        ),
    ] = "1d",
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """List tags, the most frequent first, with how often each fix worked and came back."""
    from moirae.services.operations.fixes import TagQuery, list_tags

    query = make_query(TagQuery, rule=rule, within=within)
    with open_services(workspace) as services:
        tags = list_tags(services, query)
    if output is OutputFormat.JSON:
        print_json(tags)
        return
    columns = ["tag", "alerts", f"outcome within {within}", "last", "rules", "formerly"]
    print_table(columns, map(_format_row, tags), "no resolution has a tag")


def _format_row(tag: "TagSummary") -> tuple[Any, ...]:
    names = (", ".join(tag.rules), ", ".join(tag.formerly))
    return (tag.tag, tag.alerts, tag.summary, to_seconds(tag.last_at), *names)


@app.command()
def rename(
    tag: Annotated[str, typer.Argument(help="Tag as it is.")],
    name: Annotated[str, typer.Argument(help="New name, which no other tag has.")],
    author: AuthorOption = None,
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
) -> None:
    """Give a tag another name. Notes keep the recorded one beside it; the old name leads to it."""
    from moirae.services.operations.fixes import TagName, rename_tag

    body = make_query(TagName, tag=tag, name=name)
    with open_services(workspace) as services:
        _print_renamed(rename_tag(services.with_author(author), body))


@app.command()
def merge(
    tags: Annotated[list[str], typer.Argument(metavar="TAG…", help="Tags that end.")],
    into: Annotated[str, typer.Option("--into", metavar="TAG", help="Tag that they become.")],
    author: AuthorOption = None,
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
) -> None:
    """Make tags one. Notes keep the recorded tag beside it; the old names lead to it."""
    from moirae.services.operations.fixes import MergedTags, merge_tags

    body = make_query(MergedTags, tags=tags, into=into)
    with open_services(workspace) as services:
        _print_renamed(merge_tags(services.with_author(author), body))


def _print_renamed(renamed: "RenamedTags") -> None:
    notes = format_count(renamed.notes, "note")
    print(f"{', '.join(renamed.tags)} is now {renamed.name}, which {notes} name")
