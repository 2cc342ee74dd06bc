"""The order in which SQL recalls read pieces, by what is known of the files of the archive."""

from collections.abc import Sequence

from recall.engines import Template
from recall.ledger import TaskSpec
from recall.requests import Piece
from recall.scheduling import ValueRange, rank_by_extremes, rank_pieces
from recall.worker.column_values import ColumnValues
from recall.worker.key_counts import KeyCounts


class PieceRanking:
    """Ranks pieces by the row counts of keys and the values of columns, collected in idle time."""

    def __init__(self, key_counts: KeyCounts) -> None:
        self._key_counts = key_counts
        self._column_values = ColumnValues(key_counts.reader)

    def rank(
        self, spec: TaskSpec, template: Template, pieces: Sequence[Piece]
    ) -> tuple[list[Piece], int]:
        """Pieces in reading order, and how many of the first need not be read."""
        question = template.question
        bounds = self._key_counts.upper_bounds(template, spec.event, pieces)
        ranked, skipped = rank_pieces(
            pieces, bounds, question.order, fade=question.fade, seed=str(spec.id)
        )
        if question.extreme is None:
            return ranked, skipped
        useful = ranked[skipped:]
        by_values = rank_by_extremes(useful, self._column_values.find(template, useful))
        return [*ranked[:skipped], *by_values], skipped

    def find_values(
        self, template: Template, pieces: Sequence[Piece]
    ) -> Sequence[ValueRange | None]:
        """The values that the column of the order `extreme` has in pieces; for others none."""
        if template.question.extreme is None:
            return ()
        return self._column_values.find(template, pieces)

    def index_next_file(self) -> bool:
        """Collect what is needed of one more file; False: none is left."""
        return self._key_counts.index_next_file() or self._column_values.index_next_file()
