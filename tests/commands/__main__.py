"""Runs the commands on standard input, each a line with a JSON list of arguments.

Each is answered by a line on standard output: a JSON list of exit code and standard output.
"""

import io
import json
import os
import sys

from moirae.__main__ import run


def serve() -> None:
    """Until the end of standard input, so that this process does not outlive its parent."""
    requests, answers = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")
    # What a library or a child process writes to file descriptor 1 goes to standard error.
    os.dup2(2, 1)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for line in requests:
        answers.write(json.dumps(_run(json.loads(line))) + "\n")
        answers.flush()


def _run(arguments: list[str]) -> tuple[int, str]:
    """Exit code and standard output of a command."""
    stdout, stderr = sys.stdout, sys.stderr
    written = io.BytesIO()
    sys.argv = ["moirae", *arguments]
    sys.stdout = io.TextIOWrapper(written, encoding="utf-8", write_through=True)
    try:
        code = run()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        output = written.getvalue().decode()
        sys.stdout, sys.stderr = stdout, stderr
    return code, output


if __name__ == "__main__":
    serve()
