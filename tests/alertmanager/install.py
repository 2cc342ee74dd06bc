"""`python -m tests.alertmanager.install`: fetch Debian's package of Alertmanager for the tests."""

import subprocess
import sys
import tempfile
from pathlib import Path

from tests.alertmanager import FOLDER, find_program

_PACKAGE = "prometheus-alertmanager"
# Where Debian's program reads its templates.
_TEMPLATES = Path("/usr/share/prometheus/alertmanager")


def main() -> int:
    """Unpack the package if the program is missing. Without it, tests that need it are skipped."""
    if find_program(_PACKAGE) is not None:
        return 0
    with tempfile.TemporaryDirectory() as folder:
        try:
            subprocess.run(
                ["apt-get", "download", _PACKAGE], cwd=folder, check=True, capture_output=True
            )
            (package,) = Path(folder).glob("*.deb")
            subprocess.run(["dpkg", "-x", str(package), str(FOLDER)], check=True)
            if not _TEMPLATES.exists():
                _TEMPLATES.parent.mkdir(parents=True, exist_ok=True)
                _TEMPLATES.unlink(missing_ok=True)  # a link to a folder that is gone
                _TEMPLATES.symlink_to(FOLDER / "usr" / "share" / "prometheus" / "alertmanager")
        except (OSError, subprocess.CalledProcessError, ValueError) as error:
            print(f"moirae: no Alertmanager for the tests: {error}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
