"""Texts of the workspace file that depend on its folder and on environment variables.

Both are passed as the validation context (`WorkspaceEnvironment`); without it, texts are unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, cast

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    SecretStr,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)

from archiver.globs import escape_glob
from moirae.documents.types import (
    Text,
)

_VARIABLE = re.compile(r"\$\{([^}]*)\}?", re.ASCII)
_VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://", re.ASCII)


@dataclass(frozen=True, slots=True)
class WorkspaceEnvironment:
    """The path of a workspace file, and the environment variables it may use."""

    file: Path
    environ: Mapping[str, str]

    @property
    def folder(self) -> Path:
        return self.file.parent


def interpolate(text: str, environ: Mapping[str, str]) -> str:
    """Replace each ${VAR}. Raises `ValueError` for a variable that is not set."""

    def replace(match: re.Match[str]) -> str:
        name = match[1]
        if not match[0].endswith("}") or _VARIABLE_NAME.fullmatch(name) is None:
            raise ValueError("invalid variable: write ${NAME}")
        if name not in environ:
            raise ValueError(f"the environment variable {name} is not set")
        return environ[name]

    return _VARIABLE.sub(replace, text)


def is_url(text: str) -> bool:
    """Whether a text starts with a scheme, such as s3a:// or file://."""
    return _SCHEME.match(text) is not None


def resolve(text: str, folder: Path) -> str:
    """Make a path absolute below `folder`; a URL stays as it is."""
    if is_url(text):
        return text
    return str(folder / Path(text).expanduser())


def _environment(info: ValidationInfo) -> WorkspaceEnvironment | None:
    return cast("WorkspaceEnvironment | None", info.context)


def _interpolate_text(text: str, info: ValidationInfo) -> str:
    environment = _environment(info)
    if environment is None:
        return text
    return interpolate(text, environment.environ)


def _interpolate_secret(secret: SecretStr, info: ValidationInfo) -> SecretStr:
    return SecretStr(_interpolate_text(secret.get_secret_value(), info))


def resolve_text(text: str, info: ValidationInfo) -> str:
    if "${" in text:
        raise ValueError("${…} is supported only in database, archive, receivers and kafka servers")
    environment = _environment(info)
    if environment is None:
        return text
    return resolve(text, environment.folder)


def _resolve_glob(text: str, info: ValidationInfo) -> str:
    environment = _environment(info)
    resolved = resolve_text(text, info)
    if environment is None or is_url(text) or Path(text).expanduser().is_absolute():
        return resolved
    # The folder of the workspace may have wildcards in its name.
    return str(Path(escape_glob(str(environment.folder))) / text)


def _interpolate_and_resolve(text: str, info: ValidationInfo) -> str:
    if _environment(info) is None:
        return text
    return resolve_text(_interpolate_text(text, info), info)


def _require_text(value: Any) -> Any:
    if not isinstance(value, str | Path):
        raise ValueError("must be text")
    return value


def _resolve_path(path: Path, info: ValidationInfo) -> Path:
    return Path(resolve_text(str(path), info))


def _read_secret(
    value: Any, handler: ValidatorFunctionWrapHandler, info: ValidationInfo
) -> SecretStr:
    """A text in which ${VAR} is replaced; of `{file: PATH}`, the content of the file as it is."""
    if not isinstance(value, Mapping):
        return _interpolate_secret(handler(value), info)
    path = value.get("file")
    if set(value) != {"file"} or not isinstance(path, str):
        raise ValueError("must be a text, or a mapping with the key `file` alone")
    environment = _environment(info)
    if environment is None:
        return SecretStr("${FILE}")
    file = Path(resolve(path, environment.folder))
    try:
        content = file.read_text(encoding="utf-8").rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8"
        raise ValueError(f"cannot read the file {file}: {reason}") from None
    if not content:
        raise ValueError(f"the file {file} is empty")
    return SecretStr(content)


InterpolatedText = Annotated[Text, AfterValidator(_interpolate_text)]
"""Text in which ${VAR} is replaced."""
SecretText = Annotated[SecretStr, Field(min_length=1), AfterValidator(_interpolate_secret)]
"""Text in which ${VAR} is replaced and which is never printed."""
Secret = Annotated[
    SecretStr,
    Field(min_length=1),
    WrapValidator(_read_secret, json_schema_input_type=str | dict[Literal["file"], str]),
]
"""A secret as text in which ${VAR} is replaced, or as `{file: PATH}`. Never printed."""
LocalPath = Annotated[Text, AfterValidator(resolve_text)]
"""A path, made absolute relative to the folder of the workspace file."""
LocalGlob = Annotated[Text, AfterValidator(_resolve_glob)]
"""A glob, made absolute relative to the folder of the workspace file, or the URL of one."""
LocalFolder = Annotated[
    Path, BeforeValidator(_require_text, json_schema_input_type=str), AfterValidator(_resolve_path)
]
"""A local folder, made absolute as a LocalPath."""
PathOrUrl = Annotated[Text, AfterValidator(_interpolate_and_resolve)]
"""A path or URL in which ${VAR} is replaced, then as LocalPath."""
