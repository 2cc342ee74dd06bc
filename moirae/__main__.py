"""`moirae` and `python -m moirae`: runs a command; what goes wrong is one message, not a trace."""

import os
import signal
import sys

# The imports below take a second: a Ctrl-C during them ends the process without a trace. Where SIGINT is ignored, as in
# the background of a script, that stays so.
_INTERRUPTS = signal.getsignal(signal.SIGINT) is signal.default_int_handler
if _INTERRUPTS:
    signal.signal(signal.SIGINT, signal.SIG_DFL)

import structlog  # noqa: E402

from archiver.errors import StorageFailed  # noqa: E402
from moirae.cli import EXIT_INTERNAL_ERROR, app  # noqa: E402
from moirae.errors import MoiraeError, Unreachable  # noqa: E402
from moirae.runtime import configure_logging, tolerate_closed_stderr  # noqa: E402

if _INTERRUPTS:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def main() -> None:
    """Exit codes: 0 good, 1 bad, 2 usage, 3 warnings only, 70 a fault of moirae itself, 75 something is away that
    may be back soon, 130 interrupted."""
    tolerate_closed_stderr()
    configure_logging()
    try:
        app()
    except MoiraeError as error:
        print(f"moirae: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except StorageFailed as error:
        print(f"moirae: {error}", file=sys.stderr)
        sys.exit(Unreachable.exit_code)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        # Whoever read our output has what they wanted.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except Exception:
        structlog.get_logger().exception("unexpected", action="crashed")
        sys.exit(EXIT_INTERNAL_ERROR)


if __name__ == "__main__":
    main()
