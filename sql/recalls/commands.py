"""Commands of operators on recalls."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from psycopg.types.json import Jsonb

from sql.gateway import Gateway


@dataclass(frozen=True, slots=True)
class CommandRow:
    """A stored command. `target`: the criteria of the recalls that it applies to.

    `effect`: what it has changed; None until it is executed.
    """

    id: int
    command: str
    target: Mapping[str, Any]
    author: str
    effect: Mapping[str, Any] | None


class CommandGateway(Gateway):
    """The queue of commands. A recall process executes each and stores its effect."""

    queries = "commands"

    def add(
        self,
        key: str,
        command: str,
        target: Mapping[str, Any],
        *,
        author: str,
        min_age: float | None,
    ) -> int | None:
        """Store a command; returns its number, None if the key exists already.

        `min_age`: only recalls created at least this many seconds ago.
        """
        number: int | None = self._value(
            "add", key=key, command=command, target=Jsonb(target), older=min_age, author=author
        )
        return number

    def find_by_key(self, key: str) -> CommandRow | None:
        return self._record(CommandRow, "find_by_key", key=key)

    def get(self, id: int) -> CommandRow | None:
        """The command with a number."""
        return self._record(CommandRow, "get", id=id)

    def list_pending(self) -> list[int]:
        """The numbers of the commands that have not been executed, oldest first."""
        return self._column("list_pending")

    def lock(self, id: int) -> tuple[str, Mapping[str, Any]] | None:
        """Lock a pending command; returns its verb and target.

        None if it was executed, or if another process executes it.
        """
        row = self._execute("lock", id=id).fetchone()
        return None if row is None else (row[0], row[1])

    def record_effect(self, id: int, effect: Mapping[str, Any]) -> None:
        self._execute("record_effect", id=id, effect=Jsonb(effect))

    def effect(self, id: int) -> Mapping[str, Any] | None:
        """The effect of a command; None until it is executed."""
        effect: Mapping[str, Any] | None = self._value("effect", id=id)
        return effect
