"""`moirae rules import-sigma`: import a collection of Sigma rules into rule files."""

import sys
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from moirae.cli.options import (
    DEFAULT_WORKSPACE,
    OutputFormat,
    OutputOption,
    WorkspaceOption,
    escape_control,
    expand_option_groups,
    format_count,
    print_json,
    print_properties,
)
from moirae.config import load_settings_from_environment
from moirae.errors import MoiraeError

if TYPE_CHECKING:
    from moirae.sigma import ImportReport

_EXIT_INCOMPLETE = 3
_MISSING_EXTRA = (
    "pySigma is not installed: install the extra, `pip install 'moirae-monitoring[sigma]'`"
)


@dataclass(frozen=True)
class ImportOptions:
    """How rules are imported, and where they are written."""

    stream: Annotated[
        str, typer.Option("--stream", metavar="NAME", help="Stream that the rules read.")
    ]
    map_file: Annotated[
        Path | None,
        typer.Option("--map", metavar="FILE", help="Map of Sigma fields to columns of the stream."),
    ] = None
    key: Annotated[
        str | None,
        typer.Option(
            "--key",
            metavar="COLUMNS",
            help="Columns that form the fingerprint of alerts, separated by commas. Required "
            "unless the map names them.",
        ),
    ] = None
    rules: Annotated[
        Path | None,
        typer.Option(
            "--rules",
            metavar="DIR",
            help="Folder of the rule files. Default: rules, beside the workspace file.",
        ),
    ] = None
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would be imported, write nothing.")
    ] = False


@expand_option_groups
def import_sigma(
    paths: Annotated[
        list[Path], typer.Argument(metavar="PATH", help="Sigma files, or folders of them.")
    ],
    options: ImportOptions,
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Import Sigma rules into rule files, or a newer version of rules imported before.

    Exit code 0 if all are imported, 3 if some are left out, changed on both sides or gone.
    """
    if find_spec("sigma") is None:
        raise MoiraeError(_MISSING_EXTRA)
    from moirae.sigma.importer import ImportRequest, import_collection

    settings = load_settings_from_environment(workspace)
    request = ImportRequest(
        paths=paths,
        stream=options.stream,
        folder=options.rules or workspace.parent / "rules",
        map_file=options.map_file,
        key=_split_names(options.key),
        dry_run=options.dry_run,
    )
    report = import_collection(settings, request)
    if output is OutputFormat.JSON:
        _print_json(report)
    else:
        _print_report(report, options.dry_run)
    if not report.is_complete:
        raise typer.Exit(_EXIT_INCOMPLETE)


def _split_names(text: str | None) -> list[str] | None:
    if text is None:
        return None
    return [name.strip() for name in text.split(",") if name.strip()]


def _print_json(report: "ImportReport") -> None:
    content = asdict(report)
    content["left_out"] = [
        {**item.location._asdict(), "kind": item.kind, "reason": item.reason}
        for item in report.left_out
    ]
    content["conflicts"] = [conflict._asdict() for conflict in report.conflicts]
    counts = {"imported": report.imported, "left_out_by_kind": report.count_left_out()}
    print_json({**counts, **content})


def _print_report(report: "ImportReport", dry_run: bool) -> None:
    messages = [*report.warnings, *report.left_out, *report.conflicts]
    messages += [f"{name}: not in PATH any more; it stays" for name in report.removed]
    for message in messages:
        print(escape_control(str(message)), file=sys.stderr)
    rows = [
        ("imported", report.imported),
        ("  new", len(report.added)),
        ("  updated", len(report.updated)),
        ("  unchanged", len(report.unchanged)),
        ("only in correlations", len(report.correlated)),
        ("left out", len(report.left_out)),
        *((f"  {kind}", count) for kind, count in report.count_left_out().items()),
        ("changed on both sides", len(report.conflicts)),
        ("not in PATH any more", len(report.removed)),
        ("deleted here", len(report.deleted)),
    ]
    print_properties((name, count) for name, count in rows if count or name == "imported")
    if dry_run:
        print(f"would write {format_count(len(report.files), 'file')}; nothing was written")
    else:
        print(f"wrote {format_count(len(report.files), 'file')}: {', '.join(report.files)}")
