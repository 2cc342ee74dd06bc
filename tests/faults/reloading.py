"""A rule that comes and goes while a workspace runs."""

from moirae.deployments.registry import RuleRegistry
from tests.faults.harness import Stage

# Appended to the rules of the harness.
EXTRA = """
  - alert: Extra
    expr: SELECT host, n, ts, {version} AS version FROM cpu WHERE cpu > {limit}
    key: [host]
    id: [n]
    keep_firing_for: 1s
"""


def wait_for_extra(system: Stage, version: str | None) -> None:
    """Until the desired rules have this version of the extra rule, and run so."""

    def reached() -> bool:
        query = "SELECT version FROM deployments WHERE rule = 'load/Extra' AND state = 'running'"
        desired = [
            d.version
            for d in RuleRegistry(system.connection).desired_rules()
            if d.name == "load/Extra"
        ]
        running = [row[0] for row in system.connection.execute(query)]
        return running == desired and bool(running) == (version is not None)

    system.wait(reached, 250)
