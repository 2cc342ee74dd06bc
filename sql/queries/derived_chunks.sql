-- list_readable --
-- Archived chunks of derived streams that have not expired.
SELECT d.stream, d.version, d.chunk FROM derived_chunks d JOIN chunks c ON c.id = d.chunk
WHERE d.done_at IS NOT NULL AND c.state <> 'expired'

-- list_of_version --
-- The chunks of a version that are archived or were attempted.
SELECT chunk, done_at IS NOT NULL AS is_archived, tries FROM derived_chunks
WHERE stream = %(stream)s AND version = %(version)s

-- begin_attempt --
-- Count an attempt to compute a chunk.
INSERT INTO derived_chunks (stream, version, chunk, tries) VALUES (%(stream)s, %(version)s, %(chunk)s, 1)
ON CONFLICT (stream, version, chunk) DO UPDATE SET tries = derived_chunks.tries + 1

-- undo_attempt --
-- Undo the count of an attempt that an orderly shutdown interrupted.
UPDATE derived_chunks SET tries = greatest(tries - 1, 0)
WHERE stream = %(stream)s AND version = %(version)s AND chunk = %(chunk)s

-- set_error --
-- Record why a chunk could not be computed.
UPDATE derived_chunks SET error = %(error)s
WHERE stream = %(stream)s AND version = %(version)s AND chunk = %(chunk)s

-- complete --
-- Record that all rows of a chunk are archived.
UPDATE derived_chunks SET rows = %(rows)s, seconds = %(seconds)s, tries = 0, error = NULL,
    done_at = clock_timestamp()
WHERE stream = %(stream)s AND version = %(version)s AND chunk = %(chunk)s

-- list_versions --
-- All versions of derived streams that are archived or were attempted.
SELECT DISTINCT stream, version FROM derived_chunks

-- delete_version --
-- Delete a version that no rule needs: readers do not start to read it any more.
DELETE FROM derived_chunks WHERE stream = %(stream)s AND version = %(version)s

-- list_retained_chunks --
-- Chunks that have not expired, or so recently that queries may still read their derived streams.
SELECT id FROM chunks
WHERE state <> 'expired' OR expired_at > clock_timestamp() - make_interval(secs => %(grace_seconds)s)

-- delete_except --
-- Delete all chunks except some.
DELETE FROM derived_chunks WHERE NOT chunk = ANY(%(retained)s)

-- list_progress --
-- Archived chunks and rows of each derived stream.
SELECT stream, version, count(*) FILTER (WHERE done_at IS NOT NULL) AS chunks, coalesce(sum(rows), 0)::bigint AS rows,
    max(error) AS error
FROM derived_chunks GROUP BY stream, version ORDER BY stream
