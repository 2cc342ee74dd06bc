"""Build the dashboard: `python -m moirae.dashboard.build`. It needs Node.

With `--check`, say whether the built files belong to the sources. That needs no Node: the build
stores a hash of its sources, of which the lock file is one.
"""

import hashlib
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import orjson

FOLDER = Path(__file__).parent
WEB = FOLDER / "web"
STATIC = FOLDER / "static"
HASH_FILE = FOLDER / "sources.sha256"
TYPES = WEB / "src" / "schema.d.ts"
_SOURCE_FILES = (
    "index.html",
    "package-lock.json",
    "package.json",
    "tsconfig.json",
    "vite.config.ts",
)
_SOURCE_FOLDERS = ("public", "src")


def hash_sources(web: Path = WEB) -> str:
    """A hash of the names and contents of all sources."""
    files = [web / name for name in _SOURCE_FILES]
    for folder in _SOURCE_FOLDERS:
        files.extend(path for path in (web / folder).rglob("*") if path.is_file())
    digest = hashlib.sha256()
    for path in sorted(files):
        content = path.read_bytes()
        digest.update(f"{path.relative_to(web).as_posix()} {len(content)}\n".encode())
        digest.update(content)
    return digest.hexdigest()


def build(static: Path = STATIC) -> None:
    """Build the files. Raises `subprocess.CalledProcessError`."""
    install_packages()
    _run("npx", "tsc", "--noEmit")
    _run("npx", "vite", "build", "--outDir", str(static), "--logLevel", "warn")


def install_packages() -> None:
    """Install the packages of the lock file, unless there are some."""
    if not (WEB / "node_modules").is_dir():
        _run("npm", "ci")


def write_types(file: Path = TYPES) -> None:
    """Generate the types of the API from its OpenAPI document. Needs installed packages."""
    from moirae.server import build_openapi_document

    document = WEB / "openapi.json"
    document.write_bytes(orjson.dumps(build_openapi_document()))
    try:
        _run("npx", "openapi-typescript", document.name, "-o", str(file))
    finally:
        document.unlink()


def main(arguments: Sequence[str]) -> int:
    """Returns an exit code."""
    if "--check" in arguments:
        if HASH_FILE.is_file() and HASH_FILE.read_text().strip() == hash_sources():
            return 0
        print(
            "the dashboard is not built from its present sources: run `make web`", file=sys.stderr
        )
        return 1
    if shutil.which("npx") is None:
        print("building the dashboard needs Node: install it", file=sys.stderr)
        return 1
    _run("npm", "ci")
    write_types()
    build()
    HASH_FILE.write_text(hash_sources() + "\n")
    return 0


def _run(*command: str) -> None:
    subprocess.run(command, cwd=WEB, check=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
