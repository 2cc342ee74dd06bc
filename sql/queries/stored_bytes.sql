-- sum_by_kind --
-- The bytes of each kind and stream.
SELECT kind, stream, sum(bytes)::bigint AS bytes FROM stored_bytes GROUP BY kind, stream ORDER BY kind, stream

-- sum_by_chunk --
-- The bytes of the rows of all streams, by kind and chunk.
SELECT kind, chunk, sum(bytes)::bigint AS bytes FROM stored_bytes WHERE chunk >= 0 GROUP BY kind, chunk

-- list_recent_chunks --
-- The bytes of the rows of each stream in closed chunks of the newest 31 days, oldest first; times in microseconds.
SELECT s.stream, (extract(epoch FROM c.from_ts) * 1000000)::bigint AS from_ts,
       (extract(epoch FROM c.to_ts) * 1000000)::bigint AS to_ts, sum(s.bytes)::bigint AS bytes
FROM stored_bytes s JOIN chunks c ON c.id = s.chunk
WHERE c.from_ts IS NOT NULL AND c.to_ts > (SELECT max(to_ts) FROM chunks) - interval '31 days'
GROUP BY s.stream, c.id ORDER BY c.id

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
