"""A workspace that runs: an alert fires, receivers of three kinds are told with what fixed it last
time, and are told when it has ended.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from moirae.examples.sample_data import SPAN, sample_rows
from tests.commands import Commands
from tests.landing import put_file
from tests.mailbox import Mailbox, serving_mail
from tests.receivers import FakeReceiver, fake_receiver

pytestmark = [pytest.mark.slow, pytest.mark.services, pytest.mark.processes]
_FIX = "throttled the crawler of juniper"
_CRAWLER = [("crawler", "juniper"), ("wget", "juniper")]
_CONDITION = "    where: event.cpu > norm.mean + 3 * norm.sd\n"
_RECEIVERS = """
receivers:
  hook: {{webhook: "{hook}hook"}}
  chat: {{slack: {{webhook: "{hook}chat"}}}}
  mail: {{email: {{to: [ops@example.org], from: moirae@example.org, smarthost: "{smtp}", tls: none}}}}
routes:
- {{receiver: hook, group_wait: 0s, group_interval: 2s, continue: true}}
- {{receiver: chat, group_wait: 0s, group_interval: 2s, continue: true}}
- {{receiver: mail, group_wait: 0s, group_interval: 2s}}
server: {{listen: "127.0.0.1:0"}}
"""


def _write_lines(path: Path, rows: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    put_file(path, "".join(json.dumps(row) + "\n" for row in rows))


def _stamp(time: datetime) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ")


def _make_rows(start: datetime, minutes: range, cpu: float) -> list[dict[str, Any]]:
    """Rows of all hosts every five minutes; `cpu`: of the host beta."""
    return [
        {
            "ts": _stamp(start + timedelta(minutes=minute)),
            "host": host,
            "cpu": cpu if host == "beta" else 30.0,
        }
        for minute in minutes
        for host in ("alpha", "beta", "gamma", "delta")
    ]


class _Workspace:
    """`start`: of the incident, after the sample data: a drain ends alerts beyond the last row."""

    def __init__(self, root: Path) -> None:
        self.root = root
        now = datetime.now(UTC).replace(second=0, microsecond=0)
        self.start = now - timedelta(minutes=45)
        command = [sys.executable, "-m", "moirae", "init", str(root)]
        subprocess.run(command, capture_output=True, timeout=200, check=True)
        self.sample_end = self.start - timedelta(minutes=75)
        for name, rows in sample_rows(self.sample_end).items():
            _write_lines(root / "landing" / name / "sample.jsonl", list(rows))
        rules = root / "rules" / "example.yaml"
        text = rules.read_text()
        assert _CONDITION in text
        # A busy machine answers recalls late: the first message waits longer for them.
        rules.write_text(text.replace(_CONDITION, "    history_wait: 3m\n"))

    def record_fix(self, commands: Commands) -> None:
        """What fixed each incident of the crawler."""
        for alert in commands.json(
            "alerts", "list", "--rule", "CpuHigh", "--all", "--limit", "100"
        ):
            since = datetime.fromisoformat(alert["starts_at"]) - (self.sample_end - SPAN)
            if alert["key"]["host"] == "beta" and since // timedelta(hours=1) == 51:
                commands.output("alerts", "resolve", alert["id"], _FIX, "--tag", "throttle")

    def begin_incident(self) -> None:
        """Twenty minutes of high CPU of the host beta, with the processes of the crawler."""
        processes = [
            {"ts": _stamp(self.start + timedelta(minutes=minute)), "host": "beta"}
            | {"process": process, "user": user}
            for minute in (0, 15)
            for process, user in [("nginx", "web"), ("appserver", "web"), *_CRAWLER]
        ]
        _write_lines(self.root / "landing" / "process" / "live.jsonl", processes)
        _write_lines(
            self.root / "landing" / "cpu" / "live1.jsonl",
            _make_rows(self.start, range(0, 20, 5), 97.0),
        )

    def end_incident(self) -> None:
        """Normal rows until now."""
        _write_lines(self.root / "landing" / "process" / "live2.jsonl", [])
        rows = _make_rows(self.start, range(20, 45, 5), 31.0)
        _write_lines(self.root / "landing" / "cpu" / "live2.jsonl", rows)


@pytest.fixture
def workspace() -> Iterator[_Workspace]:
    with tempfile.TemporaryDirectory(prefix="moirae-notify-") as folder:
        Path(folder).chmod(0o755)
        yield _Workspace(Path(folder) / "ws")


def _select(receiver: FakeReceiver, path: str, status: str) -> list[Any]:
    """The messages at a path about the rule's alerts with a status, which Slack's have in a title.

    Alerts about hosts that sent nothing for a while are counted in summaries.
    """
    bodies = [request.json for request in list(receiver.requests) if request.path == path]
    selected = []
    for body in bodies:
        text = json.dumps(body)
        is_summary = "more like this" in text
        if "CpuHigh" in text and not is_summary and status in text.lower():
            selected.append(body)
    return selected


def _select_mails(mailbox: Mailbox, status: str) -> list[str]:
    """The plain texts of mails about the rule's alerts."""
    return [
        mail.get_body(("plain",)).get_content()
        for mail in list(mailbox.mails)
        if mail["Subject"].lower().startswith(f"[{status}") and "CpuHigh" in mail["Subject"]
    ]


def test_alert_is_told_with_what_fixed_it_last_time_and_when_it_has_ended(
    workspace: _Workspace,
) -> None:
    mailbox = Mailbox()
    with Commands(workspace.root) as commands:
        commands.output("up", "--drain")
        workspace.record_fix(commands)
        with fake_receiver() as receiver, serving_mail(mailbox) as smtp:
            with (workspace.root / "moirae.yaml").open("a") as file:
                file.write(_RECEIVERS.format(hook=receiver.url, smtp=smtp))
            log = workspace.root / "up.log"
            command = [sys.executable, "-m", "moirae", "up", "--parent", str(os.getpid())]
            with log.open("wb") as output:
                process = subprocess.Popen(
                    [*command, "--workspace", str(workspace.root)], stdout=output, stderr=output
                )

            def wait(condition: Any) -> None:
                deadline = time.monotonic() + 200
                while not condition():
                    assert process.poll() is None, log.read_text()[-3000:]
                    assert time.monotonic() < deadline, log.read_text()[-3000:]
                    time.sleep(0.1)

            try:
                workspace.begin_incident()
                wait(lambda: _select(receiver, "/hook", '"firing"'))
                wait(lambda: _select(receiver, "/chat", "[firing"))
                wait(lambda: _select_mails(mailbox, "firing"))
                (message,) = _select(receiver, "/hook", '"firing"')
                number = message["alerts"][0]["moirae"]["id"]
                wait(lambda: _FIX in commands.output("receivers", "preview", "hook", number))
                workspace.end_incident()
                wait(lambda: _select(receiver, "/hook", '"resolved"'))
                wait(lambda: _select_mails(mailbox, "resolved"))
                wait(lambda: _select(receiver, "/chat", "[resolved"))
                states = commands.json("receivers", "list")
            finally:
                process.terminate()
                process.wait(60)
    (alert,) = message["alerts"]
    assert alert["labels"]["host"] == "beta"
    assert alert["annotations"]["summary"].startswith("beta (")
    history = alert["moirae"]
    assert history["norm"]["norm"]["rows"][0]["samples"] > 0
    assert "similar" in history
    # History may be read further after the first message.
    resolved = _select(receiver, "/hook", '"resolved"')[0]["alerts"][0]
    assert (resolved["status"], resolved["moirae"]["reason"]) == ("resolved", "ended")
    assert resolved["fingerprint"] == alert["fingerprint"]
    assert resolved["moirae"]["norm"]["norm"]["rows"][0]["samples"] > 100
    assert resolved["moirae"]["norm"]["norm"]["normal"] is False
    assert _FIX in [hit.get("resolution") for hit in resolved["moirae"]["similar"]]
    text = _select_mails(mailbox, "resolved")[-1]
    assert f"fixed by: {_FIX} [throttle]" in text
    assert f"fixed by: {_FIX}" in json.dumps(_select(receiver, "/chat", "[resolved")[-1])
    assert {state["receiver"]: state["error"] for state in states} == dict.fromkeys(
        ("hook", "chat", "mail")
    )
