"""`python -m tests.alertmanager.build_prometheus`: build Prometheus 3 from its Go module, without its
user interface and most of its service discovery, for the tests. It takes about ten minutes.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.alertmanager import FOLDER, find_program

_VERSION = "v0.316.0"  # of the module: Prometheus 3.16
_COMMAND = "github.com/prometheus/prometheus/cmd/prometheus"
_TAGS = "netgo,remove_all_sd"
_SOURCE = f'//go:build tools\n\npackage tools\n\nimport _ "{_COMMAND}"\n'


def main() -> int:
    """Build the program if it is missing. Without it, tests that need it are skipped."""
    if find_program("prometheus3") is not None:
        return 0
    target = FOLDER / "usr" / "bin" / "prometheus3"
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "go.mod").write_text("module prometheus3\n")
        (Path(folder) / "tools.go").write_text(_SOURCE)
        commands = (
            ["go", "get", f"{_COMMAND}@{_VERSION}"],
            ["go", "mod", "tidy"],
            ["go", "build", "-tags", _TAGS, "-ldflags", "-s -w", "-o", str(target), _COMMAND],
        )
        for command in commands:
            environment = {**os.environ, "GOFLAGS": ""}
            try:
                subprocess.run(command, cwd=folder, check=True, env=environment)
            except (OSError, subprocess.CalledProcessError) as error:
                print(f"moirae: no Prometheus 3 for the tests: {error}", file=sys.stderr)
                return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
