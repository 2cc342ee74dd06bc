"""Streams that get a new name: all rows of the ledger that belong to them."""

from dataclasses import dataclass

from sql.gateway import Gateway


@dataclass(frozen=True, slots=True)
class StreamRename:
    """A stream and its new name."""

    old: str
    new: str


class StreamRenameGateway(Gateway):
    queries = "stream_renames"

    def list_pending(self) -> list[StreamRename]:
        """The renames that were started and are not finished."""
        return self._records(StreamRename, "list_pending")

    def is_known(self, name: str) -> bool:
        """Whether a stream of this name was ever declared."""
        return bool(self._value("is_known", name=name))

    def has_units(self, name: str) -> bool:
        """Whether the ledger has source units of a stream."""
        return bool(self._value("has_units", name=name))

    def start(self, rename: StreamRename) -> None:
        """Record that a stream is being renamed."""
        self._execute("start", old=rename.old, new=rename.new)

    def finish(self, rename: StreamRename) -> None:
        """Give all rows of a stream its new name.

        A stream of that name, which has no source units, is deleted.
        """
        self._execute("delete_stream", name=rename.new)
        self._execute("delete_topics", name=rename.new)
        names = {"old": rename.old, "new": rename.new}
        self._execute("rename_units", **names)
        self._execute("rename_topics", **names)
        self._execute("rename_lost_records", **names)
        self._execute("rename_lost_rows", **names)
        self._execute("rename_lost_verdicts", **names)
        self._execute("rename_source_errors", **names)
        self._execute("rename_closed_keys", **names)
        self._execute("rename_growing_files", **names)
        self._execute("rename_pushes", **names)
        self._execute("rename_set_aside", **names)
        self._execute("rename_set_aside_streams", **names)
        self._execute("rename_summaries", **names)
        self._execute("rename_stored_bytes", **names)
        self._execute("rename_column_rewrites", **names)
        self._execute("rename_unread_input", **names)
        self._execute("rename_skipped_records", **names)
        self._execute("rename_tokens", **names)
        self._execute("rename_erased_rows", **names)
        self._execute("rename_in_erasures", **names)
        self._execute("rename_stream", **names)
