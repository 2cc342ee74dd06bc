"""Rules are added, changed and removed while data flows: other rules are not affected, and each
event is detected once.
"""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from psycopg import Connection
from pyspark.sql import SparkSession

from moirae.config.settings import Settings
from moirae.deployments.registry import RuleRegistry
from moirae.deployments.reload import RuleFileLoader
from moirae.errors import ProblemsError
from moirae.runtime import database
from sql.rules import RuleFileGateway, RuleGateway
from tests.property.world import RULES, START, Plan, World, workspace

pytestmark = pytest.mark.services

# `{version}`: another text makes another version, which finds the same events.
STEADY = RULES.split("  - alert: Start")[0].replace(
    "SELECT host, n, ts, v * 2 AS double FROM",
    "SELECT host, n, ts, v * 2 AS double, {version} AS version FROM",
)
STEADY = STEADY.replace("count(*) AS c FROM a", "count(*) AS c, {version} AS version FROM a")
ALWAYS = ("Filter", "Star", "Site", "End")
COMES_AND_GOES = {
    "Slide": RULES[RULES.index("  - alert: Slide") : RULES.index("  - alert: Inside")],
    "Inside": RULES[RULES.index("  - alert: Inside") : RULES.index("  - alert: Twice")],
    "Silent": RULES[RULES.index("  - alert: Silent") :],
}
BAD = [
    "groups: [",
    "groups:\n- name: h\n  rules:\n  - alert: A\n    expr: SELECT nothing, ts FROM a\n",
]


@pytest.fixture(scope="module")
def settings(public_folder: Path) -> Settings:
    (public_folder / "rules").mkdir()
    return workspace(public_folder)


@pytest.fixture(scope="module")
def connection(settings: Settings) -> Iterator[Connection[Any]]:
    with database.connect_database(settings, "reload") as new_connection:
        yield new_connection


@pytest.mark.slow
@pytest.mark.timeout(3000)
def test_reloads_neither_lose_nor_repeat_events(
    spark: SparkSession,
    connection: Connection[Any],
    settings: Settings,
    tmp_path: Path,
) -> None:
    reloads = 100
    files, rng, seed = (
        RuleFileLoader(lambda: spark, settings, connection),
        random.Random(reloads),
        0,
    )
    while reloads > 0:
        seed += 1
        _write(settings, random.Random(0), steady=True)
        world = World(spark, connection, settings, [], tmp_path / str(seed))
        files.apply()
        world.detector.reload(START)
        for batch in Plan.draw(seed).batches:
            world.ingest(batch, at_once=rng.random() < 0.5)
            _reload(files, world, settings, rng)
            reloads -= 1
            if rng.random() < 0.2:
                world.reopen()
        world.end_input()
        _compare(world)
        print(f"world {seed} is as it should be; {max(reloads, 0)} reloads to go", flush=True)


def _reload(files: RuleFileLoader, world: World, settings: Settings, rng: random.Random) -> None:
    if rng.random() < 0.2:
        before, desired = (
            RuleGateway(world.connection).revision(),
            RuleRegistry(world.connection).desired_rules(),
        )
        bad = settings.file.parent / "rules" / "bad.yaml"
        bad.write_text(rng.choice(BAD))
        with pytest.raises(ProblemsError, match=r"bad\.yaml"):
            files.apply()
        assert RuleGateway(world.connection).revision() == before
        assert RuleRegistry(world.connection).desired_rules() == desired
        assert "bad.yaml" in (RuleFileGateway(world.connection).get_state().problems or [""])[0]
        bad.unlink()
    else:
        _write(settings, rng)
        files.apply()
        assert RuleFileGateway(world.connection).get_state().problems is None
    world.detector.reload(START)


def _write(settings: Settings, rng: random.Random, steady: bool = False) -> None:
    optional_rules = (
        [] if steady else [text for text in COMES_AND_GOES.values() if rng.random() < 0.5]
    )
    text = STEADY.replace("{version}", str(rng.randrange(3))) + "".join(optional_rules)
    (settings.file.parent / "rules" / "rules.yaml").write_text(text)


def _compare(world: World) -> None:
    live, batch = world.events(), world.batch_events()
    for name in ALWAYS:
        events = [
            (ts, *(part for part in rest if part[0] != "version")) for ts, *rest in live[name]
        ]
        assert sorted(events, key=repr) == batch[name], name
    for name in COMES_AND_GOES:
        assert set(live[name]) <= set(batch[name]), name
    twice = "SELECT rule, eid FROM events GROUP BY rule, eid HAVING count(*) > 1"
    assert world.connection.execute(twice).fetchall() == []
    versions = world.connection.execute(
        "SELECT rule, count(DISTINCT version) FROM events GROUP BY rule"
    ).fetchall()
    assert all(count == 1 for rule, count in versions if rule.split("/")[1] in {"Star", "Site"})
    unsettled = world.connection.execute("SELECT count(*) FROM events WHERE NOT settled").fetchone()
    assert unsettled == (0,)
