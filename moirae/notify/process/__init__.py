"""The process of notifications: changed alerts → groups → outbox → receivers."""
