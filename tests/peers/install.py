"""`python -m tests.peers.install`: fetch rsyslog, as Debian packages it, and build an OpenTelemetry
Collector from its Go modules, which takes minutes, for the tests.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from tests.peers import FOLDER, find_program

_PACKAGES = ("rsyslog", "rsyslog-gnutls", "libestr0", "libfastjson4")
_VERSION = "v0.165.0"  # of the Collector
_CORE = "go.opentelemetry.io/collector"
_CONTRIB = "github.com/open-telemetry/opentelemetry-collector-contrib"
_COMPONENTS = {
    "receivers": (
        f"{_CORE}/receiver/otlpreceiver",
        f"{_CONTRIB}/receiver/filelogreceiver",
        f"{_CONTRIB}/receiver/hostmetricsreceiver",
    ),
    "processors": (f"{_CORE}/processor/batchprocessor",),
    "exporters": (
        f"{_CORE}/exporter/otlphttpexporter",
        f"{_CONTRIB}/exporter/prometheusremotewriteexporter",
    ),
}


def main() -> int:
    """Install what is missing. Without it, tests that need it are skipped."""
    return max(_install("rsyslogd", _unpack_packages), _install("otelcol", _build_collector))


def _install(program: str, install: Callable[[Path], None]) -> int:
    if find_program(program) is not None:
        return 0
    with tempfile.TemporaryDirectory() as folder:
        try:
            install(Path(folder))
        except (OSError, subprocess.CalledProcessError) as error:
            print(f"moirae: no {program} for the tests: {error}", file=sys.stderr)
            return 1
    return 0


def _unpack_packages(folder: Path) -> None:
    command = ["apt-get", "download", *_PACKAGES]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    for package in folder.glob("*.deb"):
        subprocess.run(["dpkg", "-x", str(package), str(FOLDER)], check=True)


def _build_collector(folder: Path) -> None:
    target = FOLDER / "usr" / "bin"
    target.mkdir(parents=True, exist_ok=True)
    lines = ["dist:", "  name: otelcol", f"  output_path: {folder / 'built'}"]
    for kind, modules in _COMPONENTS.items():
        lines += [f"{kind}:", *(f"  - gomod: {module} {_VERSION}" for module in modules)]
    (folder / "builder.yaml").write_text("\n".join(lines))
    built = folder / "built"
    environment = {**os.environ, "GOFLAGS": "", "GOBIN": str(folder)}
    builder = [str(folder / "builder"), "--config", "builder.yaml", "--skip-compilation"]
    for command, place in (
        (["go", "install", f"{_CORE}/cmd/builder@{_VERSION}"], folder),
        ([*builder, "--skip-get-modules"], folder),
        # Modules that only tests of modules import need not be there.
        (["go", "mod", "tidy", "-e"], built),
        (["go", "build", "-ldflags", "-s -w", "-o", "otelcol"], built),
    ):
        subprocess.run(command, cwd=place, check=True, env=environment)
    shutil.move(built / "otelcol", target / "otelcol")


if __name__ == "__main__":
    sys.exit(main())
