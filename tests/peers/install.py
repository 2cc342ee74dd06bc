"""`python -m tests.peers.install`: fetch rsyslog, as Debian packages it, and build an OpenTelemetry
Collector, Telegraf and a client of Loki from their Go modules, which takes minutes, for the tests.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
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
_TELEGRAF = "github.com/influxdata/telegraf/cmd/telegraf@v1.37.2"
_TELEGRAF_TAGS = "custom,inputs.tail,outputs.loki,parsers.value"
_LOKI_CLIENT = Path(__file__).with_name("loki_client.go")
_LOKI_MODULE = """
module lokiclient
go 1.21
require github.com/grafana/loki-client-go v0.0.0-20240913122146-e119d400c3a5
"""


def main() -> int:
    """Install what is missing. Without it, tests that need it are skipped."""
    return max(
        _install("rsyslogd", _unpack_packages),
        _install("otelcol", _build_collector),
        _install("telegraf", _build_telegraf),
        _install("lokiclient", _build_loki_client),
    )


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


def _build_telegraf(folder: Path) -> None:
    command = ["go", "install", "-ldflags", "-s -w", "-tags", _TELEGRAF_TAGS, _TELEGRAF]
    _run_go(folder, "telegraf", [command])


def _build_loki_client(folder: Path) -> None:
    shutil.copy(_LOKI_CLIENT, folder / "main.go")
    (folder / "go.mod").write_text(_LOKI_MODULE)
    build = ["go", "build", "-ldflags", "-s -w", "-o", "lokiclient", "."]
    # Modules that only tests of modules import need not be there.
    _run_go(folder, "lokiclient", [["go", "mod", "tidy", "-e"], build])


def _run_go(folder: Path, program: str, commands: Sequence[Sequence[str]]) -> None:
    """Run commands of Go that leave a program in the folder."""
    target = FOLDER / "usr" / "bin"
    target.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "GOFLAGS": "", "GOBIN": str(folder)}
    for command in commands:
        subprocess.run(command, cwd=folder, check=True, env=environment)
    shutil.move(folder / program, target / program)


if __name__ == "__main__":
    sys.exit(main())
