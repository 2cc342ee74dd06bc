"""An agent explains an alert of the demo, with the tools alone: it knows what the protocol tells it."""

import asyncio
import json
import os
import subprocess
import sys
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters
from mcp.types import Implementation

from moirae.mcp.pages import MAX_BYTES
from tests.processes import Run

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

# Three days of history, three seconds of the live phase.
_DEMO = """
import sys
from datetime import timedelta
from pathlib import Path
from moirae.demo.run import Phases, run_demo
phases = Phases(
    history=timedelta(days=3), live=timedelta(seconds=30), live_played=timedelta(seconds=3)
)
sys.exit(run_demo(Path(sys.argv[1]), seed=1, once=True, as_json=True, phases=phases))
"""
_AGENT = Implementation(name="explainer", version="1")
_MAX_PAGES = 20


@pytest.fixture(scope="module")
def demo(public_folder: Path) -> Iterator[Run]:
    run = Run(public_folder / f"demo-{uuid.uuid4().hex}")
    command = [sys.executable, "-c", _DEMO, str(run.directory)]
    environment = {**os.environ, **run.environment}
    done = subprocess.run(command, capture_output=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    yield run
    run.kill()


class _Agent:
    """Calls tools, each of whose answers must fit into its context."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        result = await self._client.call_tool(tool, arguments)
        text: str = result.content[0].text  # type: ignore[union-attr]
        assert not result.is_error, text
        assert len(text.encode()) <= MAX_BYTES
        answer: dict[str, Any] = json.loads(text)
        return answer

    async def read(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """All pages of an answer as one."""
        page = await self.call(tool, **arguments)
        answer = dict(page)
        for _ in range(_MAX_PAGES):
            if page["next"] is None:
                break
            page = await self.call(tool, **arguments, cursor=page["next"])
            for section, value in page.items():
                if isinstance(value, list):
                    answer[section] = [*answer.get(section, []), *value]
        return answer


@asynccontextmanager
async def _connected(demo: Run) -> AsyncIterator[Client]:
    file = demo.directory / "moirae.yaml"
    arguments = ["-m", "moirae", "mcp", "--allow-writes", "--workspace", str(file)]
    environment = {**os.environ, **demo.environment}
    server = StdioServerParameters(command=sys.executable, args=arguments, env=environment)
    async with Client(server, client_info=_AGENT) as client:
        yield client


async def _find_explicable(agent: _Agent) -> dict[str, Any]:
    """The newest alert with a norm and with a similar past alert that was resolved."""
    listed = await agent.call("list_alerts", rule="NodeOverloaded")
    while True:
        for alert in listed["alerts"]:
            shown = await agent.read("get_alert", alert=alert["id"])
            if any(hit["resolutions"] for hit in shown.get("similar", [])) and shown.get("norms"):
                return shown
        assert listed["next"] is not None, "no alert has a similar one that was resolved"
        listed = await agent.call("list_alerts", rule="NodeOverloaded", cursor=listed["next"])


async def _explain(client: Client) -> dict[str, Any]:
    agent = _Agent(client)
    assert "list_alerts" in (client.instructions or "")
    alert = await _find_explicable(agent)
    similar = await agent.read("find_similar", alert=alert["id"])
    reasons = await agent.read("why", alert=alert["id"])
    prompt = await client.get_prompt("explain_alert", {"alert": alert["id"]})
    best = next(hit for hit in similar["similar"] if hit["resolutions"])
    (norm,) = (answer for answer in alert["norms"] if answer["recall"] == "norm")
    tag = best["resolutions"][0]["tag"]
    step = f"Is it as at {best['at']}, where {tag} helped?"
    outcome = {"outcome": "confirmed", "result": f"score {best['score']}"}
    await agent.call("checked", alert=alert["id"], step=step, **outcome)
    await agent.call("note", alert=alert["id"], text=f"probably {tag}")
    proposed = await agent.call("resolve", alert=alert["id"], text="as then", tag=tag)
    after = await agent.read("get_alert", alert=alert["id"])
    return {
        "prompt": prompt.messages[0].content.text,  # type: ignore[union-attr]
        "alert": alert,
        "norm": norm,
        "best": best,
        "similarity": similar["similarity"],
        "reasons": reasons,
        "proposed": proposed,
        "notes": after["notes"],
    }


def test_agent_explains_an_alert_with_the_tools_alone(demo: Run) -> None:
    async def run() -> dict[str, Any]:
        async with _connected(demo) as client:
            return await _explain(client)

    found = asyncio.run(run())
    alert, norm, best = found["alert"], found["norm"], found["best"]
    assert alert["id"] in found["prompt"]
    # What happened, and what is normal there.
    value = float(alert["attributes"]["cpu"])
    (usual,) = norm["rows"]
    assert value > 92
    assert float(usual["mean"]) < value and float(usual["samples"]) > 0
    assert norm["coverage"]["final"] and norm["coverage"]["read"] > 0
    assert "chunk" in norm["coverage_summary"]
    # Whether it happened before, what fixed it, and how sure that is.
    assert best["alert"] != alert["id"] and best["at"] < alert["starts_at"]
    assert 0 < best["score"] <= 1 and best["shared"]
    assert best["resolutions"][0]["tag"]
    assert found["similarity"][0]["coverage"] is not None
    # Why it fired, and what the agent left for others.
    assert found["reasons"]["explanation"]
    kinds = {note["kind"]: note for note in found["notes"]}
    assert kinds["checked"]["outcome"] == "confirmed"
    assert kinds["note"]["text"].startswith("probably ")
    # Only people resolve: the demo has, the agent has proposed.
    written = {note["kind"] for note in found["notes"] if note["author"].endswith("(explainer)")}
    assert written == {"checked", "note", "proposal"}
