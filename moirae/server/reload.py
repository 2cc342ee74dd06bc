"""Reloading rules: in a process of its own, as Spark judges them there, and ends with what it took.

`python -m moirae.server.reload WORKSPACE` prints `{"changed": […]}`, or `{"problems": […]}` where nothing was changed.
"""

import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import orjson

# Seconds. Spark starts in some ten of them.
_PATIENCE = 120


class Busy(Exception):
    """One reload at a time."""


class Refusal(Exception):
    """The rule files are not sound: nothing was changed."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("rule files refused")
        self.problems = problems


class Reload:
    """Takes in the rule files of a workspace."""

    def __init__(self, workspace: Path) -> None:
        self._workspace = workspace
        self._lock = threading.Lock()

    def __call__(self) -> list[dict[str, Any]]:
        """What changed. Raises `Busy`, or `Refusal` with every problem."""
        if not self._lock.acquire(blocking=False):
            raise Busy
        try:
            command = [sys.executable, "-m", "moirae.server.reload", str(self._workspace)]
            done = subprocess.run(command, capture_output=True, timeout=_PATIENCE, check=False)
            told = orjson.loads(done.stdout)
        except subprocess.TimeoutExpired:
            raise Refusal([f"the check took longer than {_PATIENCE} seconds"]) from None
        except orjson.JSONDecodeError:
            raise Refusal([f"the check ended with {done.returncode}, see the server's log"]) from None
        finally:
            self._lock.release()
        if "problems" in told:
            raise Refusal(told["problems"])
        changed: list[dict[str, Any]] = told["changed"]
        return changed


def main(workspace: Path) -> dict[str, Any]:
    """Check the workspace's rule files and apply them; what `__call__` is told."""
    from archiver.engine.session import start_session
    from moirae import database
    from moirae.deployments.apply import checked, rule_files
    from moirae.deployments.registry import Registry
    from moirae.errors import MoiraeError, ProblemsError
    from moirae.rules.parse import read_rule_files
    from moirae.settings import from_environment

    try:
        settings = from_environment(workspace)
        paths = rule_files(settings, [])
        _, problems = read_rule_files(paths, settings.table_names)
        if any(problem.severity == "error" for problem in problems):
            raise ProblemsError(problems)  # no need to start Spark
        spark = start_session("moirae reload", "local[1]", Path(settings.home) / "warehouse", {}, "short")
        try:
            definitions, _ = checked(spark, settings, paths)
        finally:
            spark.stop()
        with database.connect(settings, "reload") as connection:
            return {"changed": [vars(step) for step in Registry(connection).apply(definitions)]}
    except ProblemsError as error:
        return {"problems": [str(problem) for problem in error.problems if problem.severity == "error"]}
    except MoiraeError as error:
        return {"problems": [str(error)]}


if __name__ == "__main__":
    sys.stdout.buffer.write(orjson.dumps(main(Path(sys.argv[1])), default=str))
