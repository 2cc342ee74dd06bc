"""Idempotency keys of batches that clients push."""

from sql.gateway import Gateway


class IdempotencyKeyGateway(Gateway):
    queries = "idempotency_keys"

    def insert(self, stream: str, key: str, digest: bytes) -> bool:
        """Store the digest of a batch under its key. False if the key is known already."""
        return self._execute("insert", stream=stream, key=key, digest=digest).rowcount == 1

    def find_digest(self, stream: str, key: str) -> bytes | None:
        """The digest of the batch that was accepted under a key; None for an unknown key."""
        digest = self._value("find_digest", stream=stream, key=key)
        return None if digest is None else bytes(digest)

    def delete_expired(self) -> None:
        """Delete keys older than 7 days."""
        self._execute("delete_expired")
