"""`python -m tests.fuzzing [SECONDS] [PROTOCOL…]`: look for bodies that a protocol neither reads nor
refuses, or that take more than a gigabyte or ten seconds. Needs the extra `fuzz` (atheris).
"""

import subprocess
import sys
import tempfile
from pathlib import Path

_SECONDS = 60  # of each protocol
_CHILD = "--child"
_OPTIONS = ("-rss_limit_mb=1024", "-timeout=10", "-max_len=4096", "-print_final_stats=1")


def main(arguments: list[str]) -> int:
    """Fuzz protocols one after the other. Returns how many failed."""
    from tests.fuzzing.protocols import PROTOCOLS

    seconds = int(arguments.pop(0)) if arguments and arguments[0].isdigit() else _SECONDS
    failed = 0
    for name in arguments or PROTOCOLS:
        print(f"{name}, {seconds} s", flush=True)
        with tempfile.TemporaryDirectory() as corpus:
            (Path(corpus) / "valid").write_bytes(PROTOCOLS[name][1])
            options = [*_OPTIONS, f"-max_total_time={seconds}", corpus]
            command = [sys.executable, "-m", "tests.fuzzing", _CHILD, name, *options]
            failed += subprocess.run(command).returncode != 0
    return failed


def fuzz(name: str, options: list[str]) -> None:
    """Fuzz one protocol with options of libFuzzer; ends the process."""
    import atheris

    with atheris.instrument_imports(include=["moirae.server.protocols", "moirae.server.syslog"]):
        from tests.fuzzing.protocols import check_body

    atheris.Setup([sys.argv[0], *options], lambda body: check_body(name, body))
    atheris.Fuzz()


if __name__ == "__main__":
    if sys.argv[1:2] == [_CHILD]:
        fuzz(sys.argv[2], sys.argv[3:])
    sys.exit(main(sys.argv[1:]))
