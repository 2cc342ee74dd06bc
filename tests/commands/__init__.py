"""Commands of `moirae` on a workspace, one after the other in one process.

To start a process takes longer than most commands do.
"""

import json
import os
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

_EXIT_TIMEOUT = 60.0  # seconds


class Commands:
    """The process, and the workspace in the folder `root`. It ends with its context.

    While it runs, it is a user of the embedded database of the workspace.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        repository = str(Path(__file__).parents[2])
        python_path = [repository, *filter(None, [os.environ.get("PYTHONPATH")])]
        with tempfile.NamedTemporaryFile("wb") as log:
            self._errors = open(log.name, encoding="utf-8", errors="replace")  # noqa: SIM115
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.commands"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(python_path)},
            )

    def __enter__(self) -> "Commands":
        return self

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is None:
            with suppress(subprocess.TimeoutExpired):
                self._process.communicate(timeout=_EXIT_TIMEOUT)
        else:
            print(self._errors.read()[-3000:], file=sys.stderr)  # pytest shows it
        self._process.kill()
        self._process.communicate()
        self._errors.close()

    def run(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        """Run a command; `--workspace` is added."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        command = [*arguments, "--workspace", str(self.root / "moirae.yaml")]
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        errors = self._errors.read()
        assert answer, f"the process of the commands has exited: {errors[-3000:]}"
        code, output = json.loads(answer)
        return subprocess.CompletedProcess(command, code, output, errors)

    def output(self, *arguments: str, code: int = 0) -> str:
        """The standard output of a command, which must end with this exit code."""
        done = self.run(*arguments)
        assert done.returncode == code, done.stdout[-3000:] + done.stderr[-3000:]
        return done.stdout

    def json(self, *arguments: str, code: int = 0) -> Any:
        """What a command prints with `-o json`."""
        return json.loads(self.output(*arguments, "-o", "json", code=code))

    def exported(self, what: str) -> list[dict[str, Any]]:
        """The lines of `moirae export`."""
        lines = self.output("export", what, "--format", "jsonl").splitlines()
        return [json.loads(line) for line in lines]
