"""Lookup of events and recalls by the beginning of an ID."""

from uuid import UUID

from sql.gateway import Gateway


class LookupGateway(Gateway):
    """IDs in a range. Each method returns at most two: enough to tell that one is ambiguous."""

    queries = "lookup"

    def find_events(self, low: UUID, high: UUID) -> list[UUID]:
        """Events whose own ID, or that of an alert they start, is in the range.

        Includes deleted events that have recalls.
        """
        return self._column("find_events", low=low, high=high)

    def find_recalls(self, low: UUID, high: UUID) -> list[UUID]:
        """Recalls whose ID is in the range."""
        return self._column("find_recalls", low=low, high=high)

    def find_events_of_recalls(self, low: UUID, high: UUID) -> list[UUID]:
        """Events of the recalls whose ID is in the range."""
        return self._column("find_events_of_recalls", low=low, high=high)
