"""Entry point of `moirae` and `python -m moirae`. Errors are printed as messages, not as traces."""

import logging
import os
import select
import signal
import sys

# The imports below take a second: a Ctrl-C during them ends the process without a trace. Where
# SIGINT is ignored, as in the background of a script, it stays ignored.
_HANDLES_INTERRUPT = signal.getsignal(signal.SIGINT) is signal.default_int_handler
if _HANDLES_INTERRUPT:
    signal.signal(signal.SIGINT, signal.SIG_DFL)

import structlog  # noqa: E402

from moirae.cli import EXIT_INTERNAL_ERROR, app  # noqa: E402
from moirae.runtime import logs  # noqa: E402
from moirae.services import problems  # noqa: E402

if _HANDLES_INTERRUPT:
    signal.signal(signal.SIGINT, signal.default_int_handler)

_EXIT_SUCCESS = 0
_EXIT_FAILURE = 1
_EXIT_INTERRUPTED = 130  # 128 + SIGINT, as shells report it


def main() -> None:
    """Run the command line and end the process.

    The end does not wait for threads, and runs no clean-up of libraries: a command has ended when
    its output is written, also where a thread waits for a network. In an orderly shutdown DuckDB
    prints pages about objects that threads still use.
    """
    code = _write_rest_of_output(run())
    sys.stderr.flush()
    os._exit(code)


def _write_rest_of_output(code: int) -> int:
    """The exit code: that of a failure if output is lost, as on a full disk."""
    try:
        if sys.stdout is not None:  # closed before the start
            sys.stdout.flush()
    except BrokenPipeError:
        pass  # see `_reader_is_gone`
    except KeyboardInterrupt:  # the reader is slow
        return _EXIT_INTERRUPTED
    except OSError as error:
        print(f"moirae: standard output: {error.strerror}", file=sys.stderr)
        return code or _EXIT_FAILURE
    return code


def run() -> int:
    """Run the command line; returns one of the exit codes of `docs/reference/cli.md`."""
    logs.tolerate_closed_stderr()
    # The log of a command has what goes wrong; `up`, `demo` and processes also say what they do.
    logs.configure_logging(min_level=logging.WARNING)
    try:
        app()
    except SystemExit as end:
        if isinstance(end.__context__, BrokenPipeError) and _reader_is_gone():
            return _EXIT_SUCCESS  # the exit code of Typer and Rich is 1
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


def _reader_is_gone() -> bool:
    """Whether the reader of standard output has closed it, as `head` does when it has enough.

    After that Rich, which prints tables and help, writes to the null device.
    """
    if os.path.samestat(os.fstat(1), os.stat(os.devnull)):
        return True
    poll = select.poll()
    poll.register(1, 0)
    return bool(poll.poll(0))


if __name__ == "__main__":
    main()
