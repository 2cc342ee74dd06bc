"""`python -m tests.alertmanager.install`: fetch Alertmanager and Prometheus, as Debian packages them,
for the tests.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

from tests.alertmanager import FOLDER, find_program

_PACKAGES = ("prometheus-alertmanager", "prometheus")
# Where Debian's program reads its templates.
_TEMPLATES = Path("/usr/share/prometheus/alertmanager")


def main() -> int:
    """Unpack the packages that are missing. Without them, tests that need them are skipped."""
    return max(map(_unpack, _PACKAGES))


def _unpack(package_name: str) -> int:
    if find_program(package_name) is not None:
        return 0
    with tempfile.TemporaryDirectory() as folder:
        try:
            subprocess.run(
                ["apt-get", "download", package_name], cwd=folder, check=True, capture_output=True
            )
            (package,) = Path(folder).glob("*.deb")
            subprocess.run(["dpkg", "-x", str(package), str(FOLDER)], check=True)
            if package_name == _PACKAGES[0] and not _TEMPLATES.exists():
                _TEMPLATES.parent.mkdir(parents=True, exist_ok=True)
                _TEMPLATES.unlink(missing_ok=True)  # a link to a folder that is gone
                _TEMPLATES.symlink_to(FOLDER / "usr" / "share" / "prometheus" / "alertmanager")
        except (OSError, subprocess.CalledProcessError, ValueError) as error:
            print(f"moirae: no {package_name} for the tests: {error}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
