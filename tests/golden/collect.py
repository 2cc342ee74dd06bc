"""Collects the texts that users read: help of all commands, messages of errors, log events.

The files beside this module hold them, so that wording is reviewed as a whole. After a change run
`python -m tests.golden.collect` and review the difference.
"""

import ast
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
GOLDEN = Path(__file__).parent
PACKAGES = ("archiver", "moirae", "recall", "sql")
WIDTH = 100  # characters of a line of help
LOG_METHODS = frozenset({"debug", "info", "warning", "error", "critical", "exception"})
# Calls that take messages without raising them: problems of files are raised together, and reasons
# of rejected queries and tasks are stored.
MESSAGE_FUNCTIONS = frozenset(
    {
        "EngineDecision",
        "Finding",
        "Problem",
        "SyntaxProblem",
        "ValueProblem",
        "_ModelProblem",
        "_record_failure",
        "_record_result",
        "_stop",
        "add_problem",
        "fail",
        "not_reproducible",
        "problem",
        "problems.append",
    }
)


def cli_help() -> str:
    """The help text of each command."""
    import typer

    from moirae.cli import app

    pages = [f"$ {path} --help\n{text}" for path, text in _help_pages(typer.main.get_command(app))]
    return "\n".join(pages)


def _help_pages(
    command: Any, path: str = "moirae", parent: Any = None
) -> Iterator[tuple[str, str]]:
    """Path and help text of a command and its subcommands; hidden ones are left out."""
    context = command.context_class(command, info_name=path.rpartition(" ")[2], parent=parent)
    yield path, _plain_help(command, context)
    # Typer's groups are not instances of click's Group.
    if hasattr(command, "commands"):
        for name, subcommand in sorted(command.commands.items()):
            if not subcommand.hidden:
                yield from _help_pages(subcommand, f"{path} {name}", context)


def _plain_help(command: Any, context: Any) -> str:
    """Usage, description, parameters and subcommands, without the frames that rich draws."""
    formatter = context.formatter_class(width=WIDTH, max_width=WIDTH)
    command.format_usage(context, formatter)
    formatter.write_paragraph()
    formatter.write_text(" ".join((command.help or "").split()))
    parameters = []
    for parameter in command.params:
        record = parameter.get_help_record(context)
        if record is not None and not parameter.hidden:
            parameters.append(record)
    _write_definitions(formatter, "Parameters", parameters)
    if hasattr(command, "commands"):
        subcommands = []
        for name, subcommand in sorted(command.commands.items()):
            if not subcommand.hidden:
                subcommands.append((name, subcommand.get_short_help_str(limit=WIDTH)))
        _write_definitions(formatter, "Commands", subcommands)
    return str(formatter.getvalue())


def _write_definitions(formatter: Any, heading: str, rows: list[tuple[str, str]]) -> None:
    if rows:
        with formatter.section(heading):
            formatter.write_dl(rows)


def error_messages() -> str:
    """Each text given to an exception where it is raised, or to a function that takes messages."""
    return _collect(_find_messages)


def _find_messages(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
        call = node.exc
    elif isinstance(node, ast.Call) and _takes_messages(node):
        call = node
    else:
        return
    name = ast.unparse(call.func).rpartition(".")[2]
    arguments = [*call.args, *[keyword.value for keyword in call.keywords]]
    for argument in arguments:
        for text in _find_texts(argument):
            if " " in text:  # a single word is an ID or a kind, not a message
                yield f"{name}: {text}"


def _takes_messages(call: ast.Call) -> bool:
    function = ast.unparse(call.func)
    names = (function, function.rpartition(".")[2])
    return any(name in MESSAGE_FUNCTIONS for name in names)


def _find_texts(node: ast.AST) -> Iterator[str]:
    """The literal texts of an expression, such as those of tuples and of both cases of an if."""
    text = _template(node) if isinstance(node, ast.expr) else ""
    if text:
        yield text
        return
    if isinstance(node, ast.Call):  # its arguments are not messages, or found by themselves
        return
    for child in ast.iter_child_nodes(node):
        yield from _find_texts(child)


def log_events() -> str:
    """Each log event: level, action and text."""
    return _collect(_find_log_events)


def _find_log_events(node: ast.AST) -> Iterator[str]:
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return
    actions = [keyword.value for keyword in node.keywords if keyword.arg == "action"]
    if node.func.attr in LOG_METHODS and actions and node.args:
        action = _template(actions[0]) or f"{{{ast.unparse(actions[0])}}}"
        yield f"{node.func.attr}: {action}: {_template(node.args[0])}"


def _collect(find: Callable[[ast.AST], Iterator[str]]) -> str:
    """What is found in all modules, sorted, one line each with its module first."""
    lines: set[str] = set()
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            module = path.relative_to(ROOT)
            for node in ast.walk(ast.parse(path.read_text())):
                lines.update(f"{module}: {text}\n" for text in find(node))
    return "".join(sorted(lines))


def _template(node: ast.expr) -> str:
    """A text as written, with {expressions} for values; empty where it is not a literal."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value.replace("\n", "\\n")
    if isinstance(node, ast.JoinedStr):
        return "".join(map(_template, node.values))
    if isinstance(node, ast.FormattedValue):
        return "{" + ast.unparse(node.value) + "}"
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _template(node.left) + _template(node.right)
    return ""


COLLECTORS = {
    "cli_help.txt": cli_help,
    "error_messages.txt": error_messages,
    "log_events.txt": log_events,
}


def main() -> None:
    """Update the golden files."""
    for name, collector in COLLECTORS.items():
        (GOLDEN / name).write_text(collector())


if __name__ == "__main__":
    main()
