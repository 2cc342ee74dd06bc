"""Tags of resolutions: what they were given to, and their names."""

from dataclasses import dataclass
from datetime import datetime

from sql.gateway import Gateway


@dataclass(frozen=True, slots=True)
class TriedFixRow:
    """The last resolution of an alert, and what became of the alert.

    `effect`, `superseded_by`: see `AlertNoteRow`. `at`: when it was recorded. `ends_at`: of the
    alert. `next_at`: when the next alert of the same key that fired began.
    """

    rule: str
    tag: str
    effect: str | None
    superseded_by: str | None
    at: datetime
    ends_at: datetime | None
    next_at: datetime | None


@dataclass(frozen=True, slots=True)
class TagNameRow:
    """A tag that has another name, and who gave it."""

    old_tag: str
    tag: str
    author: str
    at: datetime


class TagGateway(Gateway):
    """The tags of all resolutions."""

    queries = "tags"

    def list_tried(self, rule: str | None) -> list[TriedFixRow]:
        """Alerts with a resolution that has a tag, or that needed no action, by its time."""
        return self._records(TriedFixRow, "list_tried", rule=rule)

    def list_names(self) -> list[TagNameRow]:
        """All tags that have another name, oldest first."""
        return self._records(TagNameRow, "list_names")

    def count(self, tag: str) -> int:
        """How many notes name a tag."""
        return int(self._value("count", tag=tag))

    def lock(self) -> None:
        """Keep others from renaming tags until the end of the transaction."""
        self._execute("lock")

    def rename(self, old: str, new: str, author: str) -> None:
        """Give all that has one tag another one, now and when it is recorded again.

        Notes keep the tag that was recorded.
        """
        self._execute("rename_notes", old=old, new=new)
        self._execute("rename_superseding", old=old, new=new)
        self._execute("clear_superseded_by_itself", tag=new)
        self._execute("rename_shown", old=old, new=new)
        self._execute("rename_names", old=old, new=new)
        self._execute("put_name", old=old, new=new, author=author)
        self._execute("delete_name", tag=new)
