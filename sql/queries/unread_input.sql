-- put --
-- Store since when the oldest unread input of a stream waits.
INSERT INTO unread_input (stream, oldest_at, checked_at)
VALUES (%(stream)s, %(oldest_at)s, clock_timestamp())
ON CONFLICT (stream) DO UPDATE SET oldest_at = excluded.oldest_at, checked_at = excluded.checked_at

-- delete_others --
-- Forget the streams that are no longer declared.
DELETE FROM unread_input WHERE stream <> ALL(%(streams)s)

-- list_all --
-- The streams with unread input, the longest wait first.
SELECT stream, oldest_at, checked_at FROM unread_input WHERE oldest_at IS NOT NULL
ORDER BY oldest_at, stream
