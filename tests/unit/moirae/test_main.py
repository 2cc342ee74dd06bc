"""The program `moirae`: start-up time, and exit after an outage."""

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from moirae import __version__
from moirae.cli import app
from tests.sampled import every

pytestmark = pytest.mark.processes

HEAVY_MODULES = ("pyspark", "numba", "sklearn", "scipy", "duckdb", "deltalake", "pyarrow")
# The work of the process: a thread that blocks for minutes, then the failure.
_FAILING_PROGRAM = """
import subprocess, sys, time, types
from concurrent.futures import ThreadPoolExecutor
import sql
from archiver.errors import LogDamaged, StorageFailed
from moirae.__main__ import main

def lose_jvm():
    from pyspark import SparkContext

    SparkContext._gateway = types.SimpleNamespace(proc=subprocess.Popen(["sleep", "0.2"]))
    return ConnectionRefusedError(111, "Connection refused")

ERRORS = {
    "storage": lambda: StorageFailed("the archive s3://b cannot be used: it is away"),
    "database": lambda: sql.OperationalError("server closed the connection\\n\\tunexpectedly"),
    "connection": lambda: sql.InterfaceError("the connection is closed"),
    "damage": lambda: LogDamaged("streams/s: it was lost"),
    "jvm": lose_jvm,
    "other": lambda: ConnectionRefusedError(111, "Connection refused"),
}

def run(*_):
    ThreadPoolExecutor(1).submit(time.sleep, 300)
    raise ERRORS[kind]()

kind, module, function, role, workspace = sys.argv[1:]
sys.modules[module] = types.ModuleType(module)
setattr(sys.modules[module], function, run)
sys.argv = ["moirae", "run", role, "--workspace", workspace]
main()
"""
_PROCESSES = [
    ("moirae.live", "run_live", "live"),
    ("moirae.recall_process", "run_recall", "recall"),
]


def _run_failing(
    kind: str, process: tuple[str, str, str], tmp_path: Path
) -> tuple[int, dict[str, str]]:
    """Returns exit code and log event of a process that fails; the event is the only output."""
    workspace = tmp_path / "moirae.yaml"
    workspace.write_text(
        "streams: {s: {columns: {ts: timestamp}, time: ts, source: {files: 'in/*.jsonl'}}}\n"
    )
    command = [sys.executable, "-c", _FAILING_PROGRAM, kind, *process, str(workspace)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60)
    (line,) = result.stderr.splitlines()
    return result.returncode, json.loads(line)


@pytest.mark.parametrize(
    "process", [_PROCESSES[0], pytest.param(_PROCESSES[1], marks=pytest.mark.slow)]
)
def test_process_exits_at_once_when_object_storage_fails(
    process: tuple[str, str, str], tmp_path: Path
) -> None:
    code, event = _run_failing("storage", process, tmp_path)
    assert (code, event["action"]) == (75, "storage_unavailable")
    assert event["error"] == "the archive s3://b cannot be used: it is away"


@pytest.mark.parametrize(
    "process", [pytest.param(_PROCESSES[0], marks=pytest.mark.slow), _PROCESSES[1]]
)
@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("database", "server closed the connection"),
        pytest.param("connection", "the connection is closed", marks=pytest.mark.slow),
    ],
)
def test_process_exits_as_unavailable_when_postgresql_fails(
    kind: str, reason: str, process: tuple[str, str, str], tmp_path: Path
) -> None:
    code, event = _run_failing(kind, process, tmp_path)
    assert (code, event["action"], event["error"]) == (75, "database_unavailable", reason)
    assert "exception" not in event


@pytest.mark.slow
def test_process_that_finds_the_archive_damaged_says_so_without_traceback(tmp_path: Path) -> None:
    code, event = _run_failing("damage", _PROCESSES[0], tmp_path)
    assert (code, event["action"]) == (70, "archive_damaged")
    assert event["error"] == "streams/s: it was lost"
    assert "exception" not in event


def test_process_whose_jvm_has_exited_logs_no_traceback(tmp_path: Path) -> None:
    code, event = _run_failing("jvm", _PROCESSES[0], tmp_path)
    assert (code, event["action"]) == (70, "jvm_exited")
    assert event["event"] == (
        "live process exits: its JVM ended unexpectedly, perhaps out of memory"
    )
    assert "exception" not in event


def test_unexpected_failure_is_logged_with_its_traceback(tmp_path: Path) -> None:
    code, event = _run_failing("other", _PROCESSES[0], tmp_path)
    assert (code, event["action"]) == (70, "process_crashed")
    assert "ConnectionRefusedError" in event["exception"]


def test_command_ends_although_a_thread_or_a_library_waits() -> None:
    program = (
        "import atexit, sys, threading, time\n"
        "from moirae.__main__ import main\n"
        "atexit.register(time.sleep, 300)\n"
        "threading.Thread(target=time.sleep, args=(300,)).start()\n"
        "sys.argv = ['moirae', '--version']\n"
        "main()"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60
    )
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout == f"moirae {__version__}\n"


def _print_version(stdout: str) -> subprocess.CompletedProcess[str]:
    """Run a command whose standard output is the value of an expression."""
    program = (
        "import sys\n"
        "from moirae.__main__ import main\n"
        f"sys.stdout = {stdout}\n"
        "sys.argv = ['moirae', '--version']\n"
        "main()"
    )
    command = [sys.executable, "-c", program]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def test_output_that_cannot_be_written_is_a_failure() -> None:
    result = _print_version("open('/dev/full', 'w')")
    assert result.returncode == 1
    assert result.stderr == "moirae: standard output: No space left on device\n"


# A command that writes what the tests say, in place of those of the product.
_WRITING_PROGRAM = """
import sys
from moirae.__main__ import main
from moirae.cli import app
from moirae.cli.export import ExportFormat, write_rows
from tests.sampled import every
from moirae.cli.options import print_json, print_properties, print_table
@app.command()
def write():
    {work}
sys.argv = ["moirae", "write"]
main()
"""


def _writing_command(work: str) -> list[str]:
    return [sys.executable, "-c", _WRITING_PROGRAM.format(work=work)]


@pytest.mark.parametrize(
    ("work", "first_line", "code"),
    every(
        3,
        [
            ("for number in range(100_000): print(number)", "0\n", 0),
            ("print_table(['n'], ([number] for number in range(12_000)), '')", "n     \n", 0),
            ("print_json(list(range(100_000)))", "[\n", 0),
            ("raise BrokenPipeError(32, 'not that of standard output')", "", 1),
        ],
    ),
)
def test_reader_that_has_enough_is_no_failure(work: str, first_line: str, code: int) -> None:
    with subprocess.Popen(
        _writing_command(work), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        assert process.stdout.readline() == first_line
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode == code


# Each writer of the command line writes the same value: with a character of Latin-1, one that has
# a similar one in ASCII, one that has none, a byte that is not UTF-8, and a control character.
_ODD_VALUE = "kö–\U0001f600"
_WRITE_ALL = f"""
    value = {_ODD_VALUE!a}
    odd = value + "\\udcff\\x1b"
    print_table(["\\xe4"], [[odd], [None]], "")
    print_properties([("a", odd)])
    print(odd)
    write_rows([{{"a": odd}}], ["a"], ExportFormat.CSV)
    print_json([value])
    write_rows([{{"a": value}}], ["a"], ExportFormat.JSONL)
"""


@pytest.mark.parametrize(
    ("environment", "encoding", "shown"),
    every(
        3,
        [
            ({"PYTHONIOENCODING": "ascii"}, "ascii", "k\\xf6-\\U0001f600\\xff"),
            ({"PYTHONIOENCODING": "latin-1"}, "latin-1", "kö-\\U0001f600\\xff"),
            ({"PYTHONIOENCODING": "utf-8"}, "utf-8", "kö–\U0001f600\\xff"),
            (
                {"LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
                "ascii",
                "k\\xf6-\\U0001f600\\xff",
            ),
        ],
    ),
)
def test_characters_that_the_encoding_lacks_are_replaced(
    environment: dict[str, str], encoding: str, shown: str
) -> None:
    result = subprocess.run(
        _writing_command(_WRITE_ALL),
        capture_output=True,
        env={**os.environ, **environment},
        timeout=60,
    )
    assert (result.returncode, result.stderr) == (0, b"")
    text = result.stdout.decode(encoding)
    assert text.count(shown) == 4
    *_, opening, item, closing, line = text.splitlines()
    assert json.loads(opening + item + closing) == [_ODD_VALUE]
    assert json.loads(line) == {"a": _ODD_VALUE}
    assert (item + line).isascii() or encoding == "utf-8"


@pytest.mark.parametrize("work", every(2, ["print_json([1])", "print_table(['n'], [[1]], '')"]))
def test_full_device_is_a_failure(work: str) -> None:
    with open("/dev/full", "wb") as device:
        result = subprocess.run(
            _writing_command(work), stdout=device, stderr=subprocess.PIPE, timeout=60
        )
    assert result.returncode == 1
    assert result.stderr == b"moirae: standard output: No space left on device\n"


def test_closed_standard_streams_are_no_failure() -> None:
    command = ["sh", "-c", '"$@" >&- 2>&-', "sh", *_writing_command(_WRITE_ALL)]
    assert subprocess.run(command, timeout=60).returncode == 0


def test_failure_is_reported_to_a_full_device_in_silence() -> None:
    with open("/dev/full", "wb") as device:
        command = [sys.executable, "-m", "moirae", "alerts", "list", "--limit", "x"]
        assert subprocess.run(command, stderr=device, timeout=60).returncode == 2


@pytest.mark.parametrize("terminal", every(2, ["dumb", None]))
def test_terminal_without_escape_sequences_gets_none(terminal: str | None) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "TERM"}
    if terminal is not None:
        environment["TERM"] = terminal
    controller, terminal_end = pty.openpty()
    command = _writing_command("print_table(['a', 'b'], [['x' * 200, None]], '')")
    try:
        result = subprocess.run(
            command, stdout=terminal_end, stderr=subprocess.PIPE, env=environment, timeout=60
        )
        output = os.read(controller, 4096)
    finally:
        os.close(terminal_end)
        os.close(controller)
    assert (result.returncode, result.stderr) == (0, b"")
    assert b"x" in output and b"\x1b" not in output


def test_locale_that_is_not_installed_is_replaced_with_one_line() -> None:
    environment = {**os.environ, "LC_ALL": "xx_YY.ISO-8859-1"}
    work = "import os; print(os.environ['LC_ALL'])"
    result = subprocess.run(
        _writing_command(work), capture_output=True, text=True, env=environment, timeout=60
    )
    assert (result.returncode, result.stdout) == (0, "C.UTF-8\n")
    (line,) = result.stderr.splitlines()
    assert json.loads(line)["locale"] == "LC_ALL=xx_YY.ISO-8859-1"


def test_command_without_standard_output_succeeds() -> None:
    result = _print_version("None")
    assert (result.returncode, result.stderr) == (0, "")


def test_command_line_loads_no_heavy_library() -> None:
    program = (
        "import sys, moirae.__main__\n"
        "from moirae.inspect import is_live_available, sum_accounting\n"
        f"print(*[name for name in {HEAVY_MODULES!r} if name in sys.modules])"
    )
    process = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert process.stdout.split() == []


def test_processes_start_without_libraries_that_few_of_them_call() -> None:
    program = (
        "import sys, moirae.demo, moirae.live, moirae.recall_process, moirae.server\n"
        "print(*[name for name in ('numba', 'scipy', 'sklearn', 'pandas') if name in sys.modules])"
    )
    process = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert process.stdout.split() == []


def test_version_is_the_one_of_the_distribution() -> None:
    result = CliRunner().invoke(app, ["--version"])
    assert (result.exit_code, result.stdout) == (0, f"moirae {__version__}\n")


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--output", "yaml", "must be table or json"),
        ("--limit", "x", "must be an integer"),
        ("--limit", "0", "must be at least 1"),
    ],
)
def test_invalid_option_is_a_usage_error(option: str, value: str, message: str) -> None:
    result = CliRunner().invoke(app, ["alerts", "list", option, value])
    assert result.exit_code == 2
    assert message in result.stderr
    assert "Input should" not in result.stderr
    assert "Value error" not in result.stderr
