"""Tables of the archive that are written from the database, and those that are computed again."""

import sql
from archiver.delta import ArchiveTable, list_tables
from archiver.ingest import Catalog
from moirae.config import Settings
from moirae.inspect import check_archived_rows
from moirae.live import open_outbox
from moirae.repair.set_aside import DamagedFolder
from moirae.repair.step import RepairStep
from moirae.runtime.storage import open_storage
from recall.ledger import restart_archive
from sql.archive import DerivedChunkGateway

_ACTIONS = {
    "events": "set the table aside, and write the settled events of the database again",
    "contexts": "set the table aside, and write the contexts of the database again",
    "derived": "set the table aside: the recall process computes its chunks again",
    "revisions": "set both tables of the revisions aside: the recall process writes them again",
    "summaries": "set the table aside: the recall process computes it again",
    "rows": "set both tables of the revisions aside: the recall process writes them again",
}
_LOSS_OF_REVISIONS = (
    "revisions that the database has no longer, such as those of ended events, and earlier versions"
)


class DatabaseTables:
    """Sets such tables aside, and has them written again."""

    def __init__(
        self, settings: Settings, connection: sql.Connection, folder: DamagedFolder
    ) -> None:
        self._settings = settings
        self._connection = connection
        self._folder = folder
        self._skipped: set[str] = set()

    def skip(self, table: str) -> None:
        """Do not compare a table: it is damaged."""
        self._skipped.add(table)

    def plan_differences(self) -> list[RepairStep]:
        """Tables that have other rows than the database: one of both is older."""
        steps: list[RepairStep] = []
        for table in list_tables(open_storage(self._settings)):
            if table.kind not in ("events", "contexts") or table.name in self._skipped:
                continue
            finding = check_archived_rows(self._settings, self._connection, table.name)
            problems = finding.problems
            if problems:
                shown = "; ".join(problems[:10])
                if len(problems) > 10:
                    shown += f"; and {len(problems) - 10:,} more"
                steps.append(self.plan_rebuild(table, shown))
        return steps

    def plan_rebuild(self, table: ArchiveTable, damage: str) -> RepairStep:
        """Have a table written again."""
        self._skipped.add(table.name)
        loss = "earlier versions of the table"
        if table.kind in ("revisions", "rows"):
            loss = _LOSS_OF_REVISIONS
        return RepairStep(
            table.name, damage, _ACTIONS[table.kind], loss, lambda: self._rebuild(table)
        )

    def _rebuild(self, table: ArchiveTable) -> None:
        root = open_storage(self._settings)
        self._folder.set_table_aside(table)
        if table.kind in ("events", "contexts"):
            outbox = open_outbox(self._connection, root, table.name)
            outbox.flush(Catalog(self._connection).chunks())
        elif table.kind == "derived":
            _, version, _, stream = table.name.split("/")
            DerivedChunkGateway(self._connection).delete_version(stream, version)
        elif table.kind in ("revisions", "rows"):
            other = "rows" if table.kind == "revisions" else "revisions"
            name = f"recalls/{other}/{table.stream}"
            for pair in list_tables(root):
                if pair.name == name:
                    self._folder.set_table_aside(pair)
            restart_archive(self._connection, table.stream)
