"""Tags the commit that is checked out as a release: `python -m deploy.release.tag`.

Ends with a message, and without a tag, unless the changelog dates the version, all changes are
committed, and the wheel in `dist/` is of this version.
"""

import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from moirae import __version__

_ROOT = Path(__file__).parents[2]


def find_obstacle(
    version: str, changelog: str, changed_files: str, wheels: Sequence[str]
) -> str | None:
    """What has to be done before the version is tagged; None: nothing."""
    if re.search(rf"(?m)^## {re.escape(version)}, \d{{4}}-\d{{2}}-\d{{2}}$", changelog) is None:
        return f"CHANGELOG.md: write the date of the release, '## {version}, YYYY-MM-DD'"
    if changed_files:
        return f"commit all changes first:\n{changed_files}"
    if not any(wheel.startswith(f"moirae_monitoring-{version}-") for wheel in wheels):
        return f"dist/ has no wheel of version {version}: run `make release`"
    return None


def main() -> None:
    """Tag the release, or say what is missing."""
    changelog = (_ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    wheels = [path.name for path in (_ROOT / "dist").glob("*.whl")]
    obstacle = find_obstacle(__version__, changelog, _git("status", "--porcelain"), wheels)
    if obstacle is not None:
        sys.exit(obstacle)
    _git("tag", "--annotate", f"v{__version__}", "--message", f"Moirae {__version__}")
    print(f"v{__version__} is tagged: publish it with `git push origin v{__version__}`")


def _git(*arguments: str) -> str:
    command = ["git", *arguments]
    return subprocess.run(command, cwd=_ROOT, check=True, capture_output=True, text=True).stdout


if __name__ == "__main__":
    main()
