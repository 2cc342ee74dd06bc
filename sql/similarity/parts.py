"""Parts of corpora, by the recall process that holds them, and comparisons with them."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from psycopg.types.json import Jsonb

from sql.gateway import Gateway

# Start and end of a span of event time in microseconds; None: unbounded.
Span = tuple[int | None, int | None]


@dataclass(frozen=True, slots=True)
class PartRow:
    """A part of a corpus: what it has of a chunk. `holder`: the lease of a live process, or None."""

    chunk: int
    bytes: int
    holder: int | None


@dataclass(frozen=True, slots=True)
class HeldPartsRow:
    """How many parts of a corpus a process holds. `holder` None: those that nobody holds."""

    holder: str | None
    corpus: str
    parts: int
    bytes: int


@dataclass(frozen=True, slots=True)
class PartRequestRow:
    """A request to compare a task's event with the events of some spans.

    `max_sequence`: the highest number of events that are compared. `event_count`: how many events
    E counts.
    """

    task: UUID
    fence: int
    spans: Sequence[Span]
    max_sequence: int
    event_count: int


@dataclass(frozen=True, slots=True)
class PartAnswerRow:
    """A partial answer, and how many events were compared; both None: there will be none."""

    task: UUID
    fence: int
    holder: int
    answer: bytes | None
    compared: int | None
    error: str | None


class PartGateway(Gateway):
    """Parts of corpora and comparisons with them. A corpus is named by its key as JSON."""

    queries = "corpus_parts"

    def list_parts(self, corpus: str) -> list[PartRow]:
        return self._records(PartRow, "list_parts", corpus=corpus)

    def list_wanted(self, bytes: int, timeout: timedelta) -> list[str]:
        """The corpora used within `timeout` with a part of up to `bytes` that nobody holds."""
        return self._column("list_wanted", bytes=bytes, timeout=timeout)

    def put_parts(self, corpus: str, bytes_by_chunk: Mapping[int, int]) -> None:
        """State the parts of a corpus, which is in use."""
        chunks, sizes = list(bytes_by_chunk), list(bytes_by_chunk.values())
        self._execute("put_parts", corpus=corpus, chunks=chunks, bytes=sizes)

    def claim_parts(
        self, corpus: str, chunks: Collection[int], *, lease: int, duration: timedelta, name: str
    ) -> list[int]:
        """Claim parts that no other live process holds; returns those that are claimed."""
        values = {"lease": lease, "duration": duration, "name": name}
        return self._column("claim_parts", corpus=corpus, chunks=list(chunks), **values)

    def renew(self, lease: int, duration: timedelta) -> None:
        """Extend the lease of all parts of a process."""
        self._execute("renew", lease=lease, duration=duration)

    def release_parts(self, corpus: str, chunks: Collection[int], lease: int) -> None:
        self._execute("release_parts", corpus=corpus, chunks=list(chunks), lease=lease)

    def release_all(self, lease: int) -> None:
        """Give up all parts of a process."""
        self._execute("release_all", lease=lease)

    def delete_unused(self, timeout: timedelta) -> None:
        """Delete parts of corpora that were not used for `timeout`, and requests of that age."""
        self._execute("delete_unused", timeout=timeout)
        self._execute("delete_old_requests", timeout=timeout)

    def list_held(self) -> list[HeldPartsRow]:
        """The parts of all corpora, by process."""
        return self._records(HeldPartsRow, "list_held")

    # Comparisons

    def ask(self, request: PartRequestRow, holder: int) -> None:
        """Ask the process with a lease to compare."""
        values = {**_to_values(request), "event_count": request.event_count}
        self._execute("ask", holder=holder, **values)

    def list_asked(self, holder: int, limit: int) -> list[PartRequestRow]:
        """What a process is asked, the first first."""
        return self._records(PartRequestRow, "list_asked", holder=holder, limit=limit)

    def answer(
        self,
        request: PartRequestRow,
        holder: int,
        *,
        answer: bytes | None = None,
        compared: int | None = None,
        error: str | None = None,
    ) -> None:
        """Store a partial answer or why there is none, unless the request was replaced."""
        values = {**_to_values(request), "answer": answer, "compared": compared, "error": error}
        self._execute("answer", holder=holder, **values)

    def list_answers(self, tasks: Collection[UUID]) -> list[PartAnswerRow]:
        """The answers so far, and requests whose holders have ended."""
        return self._records(PartAnswerRow, "list_answers", tasks=list(tasks))

    def delete_requests(self, tasks: Collection[UUID]) -> None:
        self._execute("delete_requests", tasks=list(tasks))


def _to_values(request: PartRequestRow) -> dict[str, object]:
    return {
        "task": request.task,
        "fence": request.fence,
        "spans": Jsonb(list(map(list, request.spans))),
        "max_sequence": request.max_sequence,
    }
