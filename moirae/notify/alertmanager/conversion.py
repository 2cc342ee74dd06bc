"""Converts a configuration of Alertmanager to keys of the workspace file. No I/O."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from moirae.config import Matcher
from moirae.notify.alertmanager.shape import check_shape

_ROUTE_KEYS = (
    "group_by",
    "group_wait",
    "group_interval",
    "repeat_interval",
    "continue",
    "mute_time_intervals",
    "active_time_intervals",
)
_IGNORED_GLOBALS = frozenset(
    {"smtp_smarthost", "smtp_from", "smtp_require_tls", "slack_api_url", "pagerduty_url"}
    | {"slack_app_token", "slack_app_token_file", "slack_app_url"}
    | {"smtp_auth_username", "smtp_auth_password", "smtp_auth_password_file", "slack_api_url_file"}
)
# Defaults of `send_resolved` in Alertmanager; ours is true.
_SEND_RESOLVED = {"webhook": True, "pagerduty": True, "email": False, "slack": False}
_NAME = re.compile(r"[^A-Za-z0-9_-]")


@dataclass
class Conversion:
    """Keys of the workspace file, and what could not be converted."""

    document: dict[str, Any] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)


def convert_alertmanager(config: Mapping[str, Any]) -> Conversion:
    """Convert a configuration. Raises `ValueError` if it has no route, or another shape."""
    check_shape(config)
    return _Converter(config).convert(config["route"])


class _Converter:
    def __init__(self, config: Mapping[str, Any]) -> None:
        self._config = config
        self._globals: Mapping[str, Any] = config.get("global") or {}
        self._result = Conversion()
        self._targets: dict[str, Sequence[str]] = {}
        """By receiver of Alertmanager, the names of ours: one for each of its targets."""

    def convert(self, route: Mapping[str, Any]) -> Conversion:
        receivers: dict[str, dict[str, Any]] = {}
        for declared in self._config.get("receivers") or ():
            name = str(declared.get("name", ""))
            names: list[str] = []
            for target in self._convert_receiver(name, declared):
                names.append(self._choose_name(name, receivers))
                receivers[names[-1]] = target
            self._targets[name] = names
        document = self._result.document
        document["receivers"] = receivers
        intervals = [
            *(self._config.get("time_intervals") or ()),
            *(self._config.get("mute_time_intervals") or ()),
        ]
        if intervals:
            document["time_intervals"] = intervals
        document["routes"] = self._convert_route(route, "route", None)
        rules = [self._convert_inhibition(rule) for rule in self._config.get("inhibit_rules") or ()]
        if rules:
            document["inhibit_rules"] = rules
        self._list_others()
        return self._result

    def _choose_name(self, name: str, used: Mapping[str, Any]) -> str:
        base = _NAME.sub("_", name)
        if not base or not base[0].isalpha():
            base = f"r_{base}"
        chosen, number = base[:60], 1
        while chosen in used:
            number += 1
            chosen = f"{base[:56]}_{number}"
        return chosen

    def _convert_receiver(self, name: str, declared: Mapping[str, Any]) -> list[dict[str, Any]]:
        targets: list[dict[str, Any]] = []
        for key, configs in declared.items():
            if key == "name":
                continue
            for config in configs or ():
                target = self._convert_target(name, key, config or {})
                if target is not None:
                    targets.append(target)
        if not targets and any(configs for key, configs in declared.items() if key != "name"):
            self._remark(
                f"receiver {name}: none of its targets is converted: alerts of its routes are not "
                "sent until it is declared in place of `discard: true`"
            )
        return targets

    def _convert_target(
        self, name: str, key: str, config: Mapping[str, Any]
    ) -> dict[str, Any] | None:
        converters = {
            "webhook_configs": self._convert_webhook,
            "slack_configs": self._convert_slack,
            "email_configs": self._convert_email,
            "pagerduty_configs": self._convert_pagerduty,
        }
        converter = converters.get(key)
        if converter is None:
            self._remark(f"receiver {name}: {key}: write it as an apprise URL")
            return None
        target, keys = converter(config)
        channel = key.removesuffix("_configs")
        default = _SEND_RESOLVED[channel]
        if not config.get("send_resolved", default):
            target["send_resolved"] = False
        for other in sorted(config.keys() - keys - {"send_resolved"}):
            self._remark(f"receiver {name}: {key}: {other} is not converted")
        return target

    def _convert_webhook(self, config: Mapping[str, Any]) -> tuple[dict[str, Any], set[str]]:
        target: dict[str, Any] = {"webhook": _secret(config, "url")}
        if config.get("max_alerts"):
            target["max_alerts"] = config["max_alerts"]
        return target, {"url", "url_file", "max_alerts"}

    def _convert_slack(self, config: Mapping[str, Any]) -> tuple[dict[str, Any], set[str]]:
        """A bot if there is a token and no address of its own, else an incoming webhook."""
        merged = {**self._prefixed("slack_"), **config}
        has_token = "app_token" in merged or "app_token_file" in merged
        if not has_token or "api_url" in config or "api_url_file" in config:
            url = _secret(merged, "api_url")
            return {"slack": {"webhook": url}}, {"api_url", "api_url_file"}
        bot = {"token": _secret(merged, "app_token"), "channel": config.get("channel", "")}
        target: dict[str, Any] = {"slack": bot}
        if config.get("update_message"):
            target["update"] = "edit"
        return target, {"app_token", "app_token_file", "channel", "update_message"}

    def _convert_email(self, config: Mapping[str, Any]) -> tuple[dict[str, Any], set[str]]:
        merged = {**self._prefixed("smtp_"), **config}
        target: dict[str, Any] = {
            "to": [address.strip() for address in str(config.get("to", "")).split(",")],
            "from": merged.get("from", "alertmanager@localhost"),
            "smarthost": merged.get("smarthost", "localhost:25"),
        }
        if merged.get("require_tls") is False:
            target["tls"] = "none"
        if merged.get("auth_username"):
            target["username"] = merged["auth_username"]
            target["password"] = _secret(merged, "auth_password")
        keys = {"to", "from", "smarthost", "require_tls"}
        return {"email": target}, keys | {"auth_username", "auth_password", "auth_password_file"}

    def _convert_pagerduty(self, config: Mapping[str, Any]) -> tuple[dict[str, Any], set[str]]:
        if "service_key" in config and "routing_key" not in config:
            self._remark("pagerduty: service_key is of Events API v1; use a key of v2")
            config = {**config, "routing_key": config["service_key"]}
        target: dict[str, Any] = {"routing_key": _secret(config, "routing_key")}
        url = config.get("url") or self._globals.get("pagerduty_url")
        if url:
            target["url"] = url
        keys = {"routing_key", "routing_key_file", "service_key", "url"}
        return {"pagerduty": target}, keys

    def _prefixed(self, prefix: str) -> dict[str, Any]:
        return {
            key.removeprefix(prefix): value
            for key, value in self._globals.items()
            if key.startswith(prefix)
        }

    def _convert_route(
        self, route: Mapping[str, Any], path: str, inherited: str | None
    ) -> list[dict[str, Any]]:
        """A route for each target of its receiver, of which the first has the routes within it."""
        name = route.get("receiver", inherited)
        options: dict[str, Any] = {}
        matchers = _convert_matchers(route, "match", "match_re", "matchers")
        if matchers:
            options["matchers"] = matchers
        for key in _ROUTE_KEYS:
            # An empty `group_by` is no absent one: it replaces what the route inherits.
            if route.get(key) not in (None, False) and (route[key] != [] or key == "group_by"):
                options[key] = route[key]
        for key in sorted(
            route.keys() - {*_ROUTE_KEYS, "receiver", "routes", "match", "match_re", "matchers"}
        ):
            self._remark(f"{path}: {key} is not converted")
        within: Sequence[Mapping[str, Any]] = route.get("routes") or ()
        children = [
            converted
            for index, child in enumerate(within)
            for converted in self._convert_route(child, f"{path}.routes[{index}]", name)
        ]
        targets = self._targets.get(str(name), ())
        converted_routes: list[dict[str, Any]] = []
        for target in targets or (None,):
            converted = dict(options)
            if target is None:
                converted["discard"] = True
            elif converted_routes or name != inherited or inherited is None:
                converted["receiver"] = target
            nested = [_discard(child) for child in within] if converted_routes else children
            if nested:
                converted["routes"] = nested
            converted_routes.append(converted)
        for converted in converted_routes[:-1]:
            converted["continue"] = True
        return converted_routes

    def _convert_inhibition(self, rule: Mapping[str, Any]) -> dict[str, Any]:
        converted: dict[str, Any] = {
            "source_matchers": _convert_matchers(
                rule, "source_match", "source_match_re", "source_matchers"
            ),
            "target_matchers": _convert_matchers(
                rule, "target_match", "target_match_re", "target_matchers"
            ),
        }
        if rule.get("equal"):
            converted["equal"] = rule["equal"]
        return converted

    def _list_others(self) -> None:
        known_keys = {"global", "route", "receivers", "inhibit_rules"}
        known_keys |= {"time_intervals", "mute_time_intervals"}
        for key in sorted(self._config.keys() - known_keys):
            self._remark(f"{key}: not converted")
        for key in sorted(self._globals.keys() - _IGNORED_GLOBALS):
            self._remark(f"global.{key}: not converted")

    def _remark(self, text: str) -> None:
        self._result.remarks.append(text)


def _discard(child: Mapping[str, Any]) -> dict[str, Any]:
    """What a route within another takes from it, for a target that the first one stands for."""
    matchers = _convert_matchers(child, "match", "match_re", "matchers")
    return {**({"matchers": matchers} if matchers else {}), "discard": True}


def _secret(config: Mapping[str, Any], key: str) -> Any:
    file = config.get(f"{key}_file")
    return {"file": file} if file else config.get(key, "")


def _convert_matchers(
    rule: Mapping[str, Any], equal: str, pattern: str, matchers: str
) -> Sequence[str]:
    texts = [str(Matcher(name, "=", str(value))) for name, value in (rule.get(equal) or {}).items()]
    for name, value in (rule.get(pattern) or {}).items():
        # The expression is not compiled here: the workspace file reports an invalid one.
        texts.append(str(Matcher(name, "=", str(value))).replace('="', '=~"', 1))
    return [*texts, *(rule.get(matchers) or ())]
