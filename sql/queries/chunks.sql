-- list_all --
-- All chunks, oldest first; times in microseconds.
SELECT id, (extract(epoch FROM from_ts) * 1000000)::bigint AS from_ts,
       (extract(epoch FROM to_ts) * 1000000)::bigint AS to_ts, state
FROM chunks ORDER BY id

-- get_signature --
-- Differs from what it was before if chunks have begun, ended or expired since.
SELECT count(*) AS chunks, count(to_ts) AS ended, count(*) FILTER (WHERE state = 'expired') AS expired,
       max(id) AS newest
FROM chunks

-- put --
-- Insert a chunk, or set the end of a stored one.
INSERT INTO chunks (id, from_ts, to_ts, state)
VALUES (%(id)s, %(from_ts)s, %(to_ts)s, %(state)s)
ON CONFLICT (id) DO UPDATE SET to_ts = excluded.to_ts

-- list_maintenance --
-- The version of each chunk, its completed tasks, and the seconds since it, or
-- the rows of a stream in it, expired; oldest first.
SELECT c.id, c.version,
       coalesce(jsonb_object_agg(p.name, p.version) FILTER (WHERE p.name IS NOT NULL), '{}')
           AS completed_versions,
       coalesce(extract(epoch FROM clock_timestamp() - c.expired_at), 0)::double precision
           AS expired_seconds,
       coalesce(jsonb_object_agg(p.name, extract(epoch FROM clock_timestamp() - p.done_at))
           FILTER (WHERE p.name LIKE 'end %%'), '{}') AS ended_seconds
FROM chunks c LEFT JOIN preparations p ON p.chunk = c.id GROUP BY c.id ORDER BY c.id

-- list_stream_ends --
-- By stream, the event time in microseconds before which its rows have expired while others have not.
SELECT substr(p.name, 5) AS stream, max((extract(epoch FROM c.to_ts) * 1000000)::bigint) AS until
FROM preparations p JOIN chunks c ON c.id = p.chunk
WHERE p.name LIKE 'end %%' AND c.to_ts IS NOT NULL GROUP BY 1

-- list_present_ids --
-- The chunks that rows may still be appended to.
SELECT id FROM chunks WHERE state = 'present'

-- set_state --
-- Set the state of a chunk, and the time at which it was closed or expired.
UPDATE chunks SET state = %(state)s,
    closed_at = CASE WHEN %(state)s = 'recent' THEN clock_timestamp() ELSE closed_at END,
    expired_at = CASE WHEN %(state)s = 'expired' THEN clock_timestamp() END
WHERE id = %(id)s

-- put_completed_task --
-- Record a completed maintenance task; no row if it was recorded for this version or a later one, or if the chunk has
-- been deleted since.
INSERT INTO preparations (chunk, name, version)
SELECT id, %(name)s, %(version)s FROM chunks WHERE id = %(chunk)s FOR KEY SHARE
ON CONFLICT (chunk, name) DO UPDATE
    SET version = excluded.version, done_at = clock_timestamp()
    WHERE preparations.version < excluded.version
RETURNING chunk

-- put_error --
-- A maintenance task failed.
INSERT INTO maintenance_errors (chunk, task, error)
SELECT id, %(task)s, %(error)s FROM chunks WHERE id = %(chunk)s FOR KEY SHARE
ON CONFLICT (chunk, task) DO UPDATE SET error = excluded.error, failed_at = clock_timestamp()

-- delete_error --
-- A maintenance task was completed.
DELETE FROM maintenance_errors WHERE chunk = %(chunk)s AND task = %(task)s

-- delete_errors_of --
-- A maintenance task is planned anew for all chunks.
DELETE FROM maintenance_errors WHERE task = %(task)s

-- list_errors --
-- Maintenance tasks that failed at their last try.
SELECT chunk, task, error, failed_at FROM maintenance_errors ORDER BY chunk, task

-- raise_versions --
-- Raise the version of chunks that received late rows.
UPDATE chunks SET version = version + 1, late_at = clock_timestamp() WHERE id = ANY(%(ids)s)

-- delete_before --
-- Delete the chunks before a chunk.
DELETE FROM chunks WHERE id < %(oldest)s

-- clear_start --
-- Let a chunk start at the beginning of time.
UPDATE chunks SET from_ts = NULL WHERE id = %(id)s
