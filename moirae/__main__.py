"""Entry point of `moirae` and `python -m moirae`. Errors are printed as messages, not as traces."""

import os
import signal
import sys

# The imports below take a second: a Ctrl-C during them ends the process without a trace. Where
# SIGINT is ignored, as in the background of a script, it stays ignored.
_HANDLES_INTERRUPT = signal.getsignal(signal.SIGINT) is signal.default_int_handler
if _HANDLES_INTERRUPT:
    signal.signal(signal.SIGINT, signal.SIG_DFL)

import structlog  # noqa: E402

from archiver.errors import StorageFailed  # noqa: E402
from moirae.cli import EXIT_INTERNAL_ERROR, app  # noqa: E402
from moirae.errors import MoiraeError, Unreachable  # noqa: E402
from moirae.runtime import logs  # noqa: E402

if _HANDLES_INTERRUPT:
    signal.signal(signal.SIGINT, signal.default_int_handler)

_EXIT_INTERRUPTED = 130  # 128 + SIGINT, as shells report it


def main() -> None:
    """Run the command line.

    Exit codes: 0 success, 1 failure or a problem was found, 2 usage error, 3 only warnings,
    70 internal error, 75 database or storage unreachable (try again), 130 interrupted.
    """
    logs.tolerate_closed_stderr()
    logs.configure_logging()
    try:
        app()
    except MoiraeError as error:
        print(f"moirae: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except StorageFailed as error:
        print(f"moirae: {error}", file=sys.stderr)
        sys.exit(Unreachable.exit_code)
    except KeyboardInterrupt:
        sys.exit(_EXIT_INTERRUPTED)
    except BrokenPipeError:
        # The reader of standard output has closed it. Python must not fail again at its last flush.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except Exception:
        structlog.get_logger().exception("unexpected error", action="process_crashed")
        sys.exit(EXIT_INTERNAL_ERROR)


if __name__ == "__main__":
    main()
