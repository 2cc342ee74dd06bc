"""A schema registry with Confluent's API: schemas by their numbers.

A number always means the same schema, so each is fetched once per process.
"""

import functools
import os
import threading
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import httpx

from archiver.errors import InvalidValue, RegistryUnavailable

_TIMEOUT = 10.0  # seconds of a request
_MAX_DEPTH = 50  # references of references
_NOT_FOUND = 404


@dataclass(frozen=True)
class RegisteredSchema:
    """A schema. `kind`: AVRO, PROTOBUF or JSON. `references`: the texts that it imports, by name,
    those without references first.
    """

    kind: str
    text: str
    references: tuple[tuple[str, str], ...]


class SchemaRegistry:
    """One registry. Its user and password come from the environment."""

    def __init__(self, url: str) -> None:
        user = os.environ.get("MOIRAE_REGISTRY_USER")
        credentials = None
        if user is not None:
            credentials = (user, os.environ.get("MOIRAE_REGISTRY_PASSWORD", ""))
        self._client = httpx.Client(
            base_url=url, auth=credentials, timeout=_TIMEOUT, follow_redirects=False
        )
        self._host = self._client.base_url.host
        self._schemas: dict[int, RegisteredSchema] = {}
        self._lock = threading.Lock()

    def fetch(self, number: int) -> RegisteredSchema:
        """The schema of a number.

        Raises `InvalidValue` if there is none, `RegistryUnavailable` if the registry does not
        answer.
        """
        with self._lock:
            if number not in self._schemas:
                document = self._get(f"schemas/ids/{number}")
                if document is None:
                    raise InvalidValue(f"the schema registry has no schema {number}")
                references: dict[str, str] = {}
                self._add_references(document, references, _MAX_DEPTH)
                self._schemas[number] = RegisteredSchema(
                    document.get("schemaType", "AVRO"),
                    document["schema"],
                    tuple(references.items()),
                )
            return self._schemas[number]

    def _add_references(
        self, document: dict[str, Any], references: dict[str, str], depth: int
    ) -> None:
        for reference in document.get("references") or ():
            name = reference["name"]
            if name in references or depth == 0:
                continue
            subject, version = quote(reference["subject"], safe=""), reference["version"]
            imported = self._get(f"subjects/{subject}/versions/{version}")
            if imported is None:
                raise InvalidValue(f"the schema registry has no schema {name}, which is imported")
            self._add_references(imported, references, depth - 1)
            references[name] = imported["schema"]

    def _get(self, path: str) -> dict[str, Any] | None:
        try:
            response = self._client.get(path)
            if response.status_code == _NOT_FOUND:
                return None
            response.raise_for_status()
            document: dict[str, Any] = response.json()
        except httpx.HTTPStatusError as error:
            reason = f"it answers with status {error.response.status_code}"
        except (httpx.HTTPError, ValueError) as error:
            reason = str(error) or type(error).__name__
        else:
            return document
        raise RegistryUnavailable(f"the schema registry {self._host} cannot be read: {reason}")


@functools.lru_cache(maxsize=64)
def open_registry(url: str) -> SchemaRegistry:
    """The registry of this process at a URL."""
    return SchemaRegistry(url)
