-- list_all --
-- All that was measured last.
SELECT kind, stream, chunk, bytes FROM stored_bytes ORDER BY kind, stream, chunk

-- get_measured_at --
-- When the bytes of the workspace were last measured.
SELECT measured_at FROM stored_bytes WHERE kind = 'database'

-- put_all --
-- Store what was measured; unchanged rows are not written again.
INSERT INTO stored_bytes AS s (kind, stream, chunk, bytes)
SELECT kind, stream, chunk, bytes
FROM jsonb_to_recordset(%(rows)s::jsonb) AS r(kind text, stream text, chunk integer, bytes bigint)
ON CONFLICT (kind, stream, chunk) DO UPDATE SET bytes = excluded.bytes, measured_at = clock_timestamp()
WHERE s.bytes <> excluded.bytes OR s.kind = 'database'

-- delete_others --
-- Forget what was not measured again.
DELETE FROM stored_bytes s WHERE NOT EXISTS (
    SELECT FROM jsonb_to_recordset(%(rows)s::jsonb) AS r(kind text, stream text, chunk integer)
    WHERE r.kind = s.kind AND r.stream = s.stream AND r.chunk = s.chunk
)

-- measure_database --
-- The bytes of the database, with its indexes and free space.
SELECT pg_database_size(current_database())
