"""The nesting of a configuration of Alertmanager, as far as it is converted. No I/O."""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

_Scalar = str | int | float | bool | None
_Matches = dict[str, _Scalar] | None
_Entries = dict[str, Any]


class _Shape(BaseModel):
    model_config = ConfigDict(extra="allow")


class _Route(_Shape):
    receiver: _Scalar = None
    match: _Matches = None
    match_re: _Matches = None
    matchers: list[_Scalar] | None = None
    routes: list["_Route"] | None = None


class _InhibitRule(_Shape):
    source_match: _Matches = None
    source_match_re: _Matches = None
    source_matchers: list[_Scalar] | None = None
    target_match: _Matches = None
    target_match_re: _Matches = None
    target_matchers: list[_Scalar] | None = None


class _Receiver(BaseModel):
    """Beside its name, lists of targets."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, list[_Entries | None] | None]

    name: _Scalar = None


class _Config(BaseModel):
    model_config = ConfigDict(extra="ignore")

    route: _Route
    receivers: list[_Receiver] | None = None
    inhibit_rules: list[_InhibitRule] | None = None
    time_intervals: list[_Entries] | None = None
    mute_time_intervals: list[_Entries] | None = None


class _Globals(BaseModel):
    model_config = ConfigDict(extra="ignore", populate_by_name=True)
    global_: dict[str, Any] | None = None


def check_shape(config: Mapping[str, Any]) -> None:
    """Raises `ValueError` with the place of the first value that is no list, mapping or text."""
    if "route" not in config:
        raise ValueError("no `route`: this is no configuration of Alertmanager")
    try:
        _Config.model_validate(config)
        _Globals.model_validate({"global_": config.get("global")})
    except ValidationError as error:
        first = error.errors()[0]
        kinds = ("str", "int", "float", "bool")
        path = [str(part).rstrip("_") for part in first["loc"] if part not in kinds]
        raise ValueError(f"{'.'.join(path)}: {first['msg'].lower()}") from None
