"""Texts of the workspace file that depend on where it lies and on the environment.

Both come with the validation's context (`Surroundings`); without one, texts stay as written.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, cast

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, ValidationInfo

from moirae.contract import Text

_VARIABLE = re.compile(r"\$\{([^}]*)\}?", re.ASCII)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://", re.ASCII)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Where a workspace file was found, and the environment it may name variables of."""

    file: Path
    environ: Mapping[str, str]

    @property
    def folder(self) -> Path:
        return self.file.parent


def interpolate(text: str, environ: Mapping[str, str]) -> str:
    """Replace each ${VAR}; ValueError names a variable that is not set."""

    def replace(match: re.Match[str]) -> str:
        name = match[1]
        if not match[0].endswith("}") or _NAME.fullmatch(name) is None:
            raise ValueError("a variable is written ${NAME}")
        if name not in environ:
            raise ValueError(f"the environment variable {name} is not set")
        return environ[name]

    return _VARIABLE.sub(replace, text)


def is_url(text: str) -> bool:
    """Whether a place is written with a scheme, such as s3a:// or file://."""
    return _SCHEME.match(text) is not None


def resolve(text: str, folder: Path) -> str:
    """Make a path absolute below `folder`; a URL stays as it is."""
    return text if is_url(text) else str(folder / Path(text).expanduser())


def _surroundings(info: ValidationInfo) -> Surroundings | None:
    return cast("Surroundings | None", info.context)


def _interpolated(text: str, info: ValidationInfo) -> str:
    around = _surroundings(info)
    return text if around is None else interpolate(text, around.environ)


def _interpolated_secret(secret: SecretStr, info: ValidationInfo) -> SecretStr:
    return SecretStr(_interpolated(secret.get_secret_value(), info))


def _resolved(text: str, info: ValidationInfo) -> str:
    if "${" in text:
        raise ValueError("${…} is replaced only in database, archive, receivers and kafka servers")
    around = _surroundings(info)
    return text if around is None else resolve(text, around.folder)


def _resolved_after_variables(text: str, info: ValidationInfo) -> str:
    return _resolved(_interpolated(text, info), info) if _surroundings(info) else text


def _text_only(value: Any) -> Any:
    if not isinstance(value, str | Path):
        raise ValueError("must be text")
    return value


def _resolved_path(path: Path, info: ValidationInfo) -> Path:
    return Path(_resolved(str(path), info))


Interpolated = Annotated[Text, AfterValidator(_interpolated)]
"""Text in which ${VAR} is replaced."""
Secret = Annotated[SecretStr, Field(min_length=1), AfterValidator(_interpolated_secret)]
"""Text in which ${VAR} is replaced and which is never printed."""
LocalPath = Annotated[Text, AfterValidator(_resolved)]
"""A path or glob, made absolute; relative ones start at the workspace file's folder."""
LocalFolder = Annotated[Path, BeforeValidator(_text_only, json_schema_input_type=str), AfterValidator(_resolved_path)]
"""A folder of this machine, made absolute like a LocalPath."""
Place = Annotated[Text, AfterValidator(_resolved_after_variables)]
"""A path or URL in which ${VAR} is replaced, then as LocalPath."""
