-- list_all --
-- The streams whose files are rewritten for changed columns, the longest first.
SELECT stream, columns, state, steps_done, steps, bytes_needed, reason, started_at, updated_at
FROM column_rewrites ORDER BY started_at, stream

-- put --
-- Store how far the rewrite of a stream is.
INSERT INTO column_rewrites (stream, columns, state, steps_done, steps, bytes_needed, reason)
VALUES (%(stream)s, %(columns)s, %(state)s, %(steps_done)s, %(steps)s, %(bytes_needed)s, %(reason)s)
ON CONFLICT (stream) DO UPDATE SET columns = excluded.columns, state = excluded.state,
    steps_done = excluded.steps_done, steps = excluded.steps,
    bytes_needed = excluded.bytes_needed, reason = excluded.reason, updated_at = clock_timestamp()

-- delete_others --
-- Forget the rewrites of all streams but some.
DELETE FROM column_rewrites WHERE stream <> ALL(%(streams)s)
