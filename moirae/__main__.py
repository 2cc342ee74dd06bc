"""Entry point of `moirae` and `python -m moirae`. Errors are printed as messages, not as traces."""

import gc
import logging
import os
import signal
import sys

# The imports below take a second: a Ctrl-C during them ends the process without a trace. Where
# SIGINT is ignored, as in the background of a script, it stays ignored.
_HANDLES_INTERRUPT = signal.getsignal(signal.SIGINT) is signal.default_int_handler
if _HANDLES_INTERRUPT:
    signal.signal(signal.SIGINT, signal.SIG_DFL)

import structlog  # noqa: E402

from archiver.threads import set_failure_handler  # noqa: E402
from moirae.cli import EXIT_INTERNAL_ERROR, app  # noqa: E402
from moirae.errors import OutputError  # noqa: E402
from moirae.runtime import (  # noqa: E402
    logs,
    prepare_stdout,
    replace_missing_locale,
    tolerate_closed_stderr,
)
from moirae.services import problems  # noqa: E402

if _HANDLES_INTERRUPT:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# New objects between collections of garbage. Trees of SQL and rows are hundreds of thousands of
# objects that live on: at 700, Python's default, looking through them takes a third of the time.
_COLLECTION_THRESHOLD = 100_000

_EXIT_SUCCESS = 0
_EXIT_INTERRUPTED = 130  # 128 + SIGINT, as shells report it


def main() -> None:
    """Run the command line and end the process.

    The end does not wait for threads, and runs no clean-up of libraries: a command has ended when
    its output is written, also where a thread waits for a network. In an orderly shutdown DuckDB
    prints pages about objects that threads still use.
    """
    gc.set_threshold(_COLLECTION_THRESHOLD)
    prepare_stdout()
    set_failure_handler(_exit_after_thread_failure)
    code = _write_rest_of_output(run())
    sys.stderr.flush()
    os._exit(code)


def _write_rest_of_output(code: int) -> int:
    """The exit code: that of a failure if output is lost, as on a full disk."""
    try:
        sys.stdout.flush()
    except SystemExit:  # the reader has enough
        pass
    except KeyboardInterrupt:  # the reader is slow
        return _EXIT_INTERRUPTED
    except OutputError as error:
        print(f"moirae: {error}", file=sys.stderr)
        return code or error.exit_code
    return code


def run() -> int:
    """Run the command line; returns one of the exit codes of `docs/reference/cli.md`."""
    tolerate_closed_stderr()
    # The log of a command has what goes wrong; `up`, `demo` and processes also say what they do.
    logs.configure_logging(min_level=logging.WARNING)
    replace_missing_locale()
    try:
        app()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else _EXIT_SUCCESS
    except KeyboardInterrupt:
        return _EXIT_INTERRUPTED
    except Exception as error:
        explained = problems.explain_error(error)
        if explained is None:
            structlog.get_logger().exception("unexpected error", action="process_crashed")
            return EXIT_INTERNAL_ERROR
        print(f"moirae: {explained}", file=sys.stderr)
        return explained.exit_code
    return _EXIT_SUCCESS


def _exit_after_thread_failure(thread: str, error: BaseException) -> None:
    """A command does not end as if nothing had happened; processes of a workspace also store it."""
    structlog.get_logger().error(
        "thread failed", action="thread_failed", thread=thread, error=repr(error)
    )
    os._exit(EXIT_INTERNAL_ERROR)


if __name__ == "__main__":
    main()
