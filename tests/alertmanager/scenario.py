"""Random routes, alerts, silences and inhibitions, for Alertmanager and for Moirae alike."""

import random
from dataclasses import dataclass, field, replace
from typing import Any

import yaml

LABELS = ("a", "b", "c")
VALUES = ("x", "y", "z")
RECEIVERS = ("r0", "r1", "r2")


@dataclass(frozen=True)
class Step:
    """What happens `at` seconds. `kind`: fire, resolve, silence, expire or restart."""

    at: float
    kind: str
    labels: dict[str, str] = field(default_factory=dict)
    number: int = 0


@dataclass(frozen=True)
class Scenario:
    """Routes, inhibition and steps. Times are seconds."""

    routes: list[dict[str, Any]]
    inhibit_rules: list[dict[str, Any]]
    steps: list[Step]
    duration: float

    def moirae(self, url: str) -> str:
        """The workspace file. `url`: of the receivers, followed by their names."""
        receivers = {name: {"webhook": f"{url}{name}"} for name in RECEIVERS}
        receivers["r1"]["send_resolved"] = False  # type: ignore[assignment]
        document = {
            "receivers": receivers,
            "routes": self.routes,
            "inhibit_rules": self.inhibit_rules,
            "limits": {"notifications": 100_000},
        }
        return yaml.safe_dump(document)

    def alertmanager(self, url: str) -> str:
        """The configuration of Alertmanager."""
        receivers: list[dict[str, Any]] = [{"name": "none"}]
        for name in RECEIVERS:
            webhook = {"url": f"{url}{name}", "send_resolved": name != "r1"}
            receivers.append({"name": name, "webhook_configs": [webhook]})
        document = {
            "route": {"receiver": "none", "routes": self.routes},
            "receivers": receivers,
            "inhibit_rules": self.inhibit_rules,
        }
        return yaml.safe_dump(document)


def make_scenario(
    seed: int, scale: float = 1.0, duration: float = 24.0, alerts: int = 14, restarts: int = 0
) -> Scenario:
    """The scenario of a seed. `scale`: all its times are so many times as long.

    `restarts`: how often our process is restarted.
    """
    chooser = random.Random(seed)
    routes = [_make_route(chooser, depth=0) for _ in range(chooser.randint(2, 4))]
    rules = [_make_inhibition(chooser) for _ in range(chooser.randint(0, 2))]
    steps: list[Step] = []
    used: set[tuple[tuple[str, str], ...]] = set()
    while len(used) < alerts:
        labels = {"alertname": f"A{chooser.randint(0, 3)}"}
        labels |= {name: chooser.choice(VALUES) for name in LABELS if chooser.random() < 0.8}
        if tuple(sorted(labels.items())) in used:
            continue
        used.add(tuple(sorted(labels.items())))
        at = chooser.uniform(0.5, duration * 0.6)
        while at < duration * 0.85:
            steps.append(Step(at, "fire", labels))
            at += chooser.uniform(0.8, 8.0)
            if at < duration * 0.85:
                steps.append(Step(at, "resolve", labels))
            at += chooser.uniform(0.8, 8.0)
    for number in range(chooser.randint(0, 2)):
        at = chooser.uniform(1.0, duration * 0.5)
        matcher = {chooser.choice(LABELS): chooser.choice(VALUES)}
        steps.append(Step(at, "silence", matcher, number))
        steps.append(Step(at + chooser.uniform(2.0, 8.0), "expire", {}, number))
    for number in range(restarts):
        steps.append(Step(chooser.uniform(4.0, duration * 0.7), "restart", {}, number))
    ordered = sorted(steps, key=lambda step: step.at)
    scaled = [replace(step, at=step.at * scale) for step in ordered]
    return Scenario(_scale(routes, scale), rules, scaled, duration * scale)


def _scale(routes: list[dict[str, Any]], scale: float) -> list[dict[str, Any]]:
    """Routes with longer times."""
    scaled = []
    for route in routes:
        times = {
            name: f"{round(int(route[name][:-1]) * scale)}s"
            for name in ("group_wait", "group_interval")
            if name in route
        }
        if route.get("repeat_interval", "1h") != "1h":
            times["repeat_interval"] = f"{round(int(route['repeat_interval'][:-1]) * scale)}s"
        scaled.append({**route, **times, "routes": _scale(route.get("routes", []), scale)})
    return scaled


def _make_matchers(chooser: random.Random) -> list[str]:
    matchers = []
    for name in chooser.sample((*LABELS, "alertname"), chooser.randint(0, 2)):
        values = ("A0", "A1", "A2") if name == "alertname" else VALUES
        match chooser.choice(["=", "!=", "=~", "!~"]):
            case "=" | "!=" as operator:
                matchers.append(f'{name}{operator}"{chooser.choice(values)}"')
            case operator:
                matchers.append(f'{name}{operator}"{"|".join(chooser.sample(values, 2))}"')
    return matchers


def _make_route(chooser: random.Random, depth: int) -> dict[str, Any]:
    route: dict[str, Any] = {
        "matchers": _make_matchers(chooser),
        "continue": chooser.random() < 0.4,
    }
    if depth == 0 or chooser.random() < 0.5:
        route["receiver"] = chooser.choice(RECEIVERS)
    if depth == 0 or chooser.random() < 0.4:
        group_by = chooser.choice([["..."], ["alertname"], ["a", "b"], []])
        if group_by or depth == 0:
            route["group_by"] = group_by
        route["group_wait"] = chooser.choice(["0s", "1s", "2s"])
        route["group_interval"] = chooser.choice(["2s", "3s"])
        # No multiples of `group_interval`: whether Alertmanager repeats at such a tick or at the next
        # one depends on how late its timers are.
        route["repeat_interval"] = chooser.choice(["7s", "11s", "1h"])
    if depth < 2 and chooser.random() < 0.5:
        route["routes"] = [_make_route(chooser, depth + 1) for _ in range(chooser.randint(1, 2))]
    return route


def _make_inhibition(chooser: random.Random) -> dict[str, Any]:
    return {
        "source_matchers": _make_matchers(chooser) or ['a="x"'],
        "target_matchers": _make_matchers(chooser) or ['b="y"'],
        "equal": chooser.sample(LABELS, chooser.randint(0, 2)),
    }
