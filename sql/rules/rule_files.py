"""The rule files of a workspace, as the live process read them last."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from psycopg.types.json import Jsonb

from sql.gateway import Gateway


@dataclass(frozen=True, slots=True)
class RuleFilesRow:
    """State of the rule files.

    `last_request`: number of reload requests; `last_served`: the last one that was served.
    `digest`: a hash of the files checked last. `looked_at`: wall-clock time of the check. Both are None before
    the first check. `problems`: why the files were rejected; None if they are applied.
    `revision`: of the desired rules when these files were applied; None: not known.
    """

    last_request: int
    last_served: int
    digest: str | None
    looked_at: datetime | None
    problems: list[str] | None
    revision: int | None


class RuleFileGateway(Gateway):
    queries = "rule_files"

    def request_reload(self) -> int:
        """Ask the live process to read the files. Returns the number of the request."""
        return int(self._value("request_reload"))

    def get_state(self) -> RuleFilesRow:
        """The requests, and the result of the last check."""
        state = self._record(RuleFilesRow, "get_state")
        assert state is not None
        return state

    def begin_check(self, digest: str) -> int:
        """Record the start of a check. Returns how many checks of these files never ended."""
        return int(self._value("begin_check", digest=digest))

    def record_check(
        self,
        request: int,
        digest: str,
        problems: Sequence[str] | None,
        revision: int | None = None,
    ) -> None:
        """Record the result of a check, which serves all requests up to `request`."""
        stored_problems = None
        if problems is not None:
            stored_problems = Jsonb(problems)
        self._execute(
            "record_check",
            request=request,
            digest=digest,
            problems=stored_problems,
            revision=revision,
        )
