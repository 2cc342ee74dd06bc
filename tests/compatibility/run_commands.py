"""Runs commands of `moirae` one after the other in one process.

Standard input: a JSON list of argument lists. Standard output: a JSON list of [exit code, standard
output].
"""

import io
import json
import os
import sys

from moirae.__main__ import main


def run(arguments: list[str]) -> tuple[int, str]:
    """Exit code and standard output of a command."""
    before, sys.argv = sys.stdout, ["moirae", *arguments]
    written = io.BytesIO()
    sys.stdout = io.TextIOWrapper(written, encoding="utf-8", write_through=True)
    code: int | str | None = 0
    try:
        main()
    except SystemExit as end:
        code = end.code
    finally:
        sys.stdout.flush()
        output = written.getvalue().decode()
        sys.stdout = before
    return (int(code) if isinstance(code, int) else int(code is not None)), output


if __name__ == "__main__":
    # Whatever a library or a child process writes to file descriptor 1 goes to standard error.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    results = [run(arguments) for arguments in json.load(sys.stdin)]
    json.dump(results, answers)
    answers.flush()
