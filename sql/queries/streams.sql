-- there --
-- Which chunks of which versions of derived streams are archived, and to be read.
SELECT d.stream, d.version, d.chunk FROM derived_chunks d JOIN chunks c ON c.id = d.chunk
WHERE d.done_at IS NOT NULL AND c.state <> 'expired'

-- known --
-- The chunks of a version that are archived, or cannot be.
SELECT chunk, done_at IS NOT NULL, tries FROM derived_chunks WHERE stream = %(stream)s AND version = %(version)s

-- begin --
-- A chunk of a derived stream is begun; if the process falls over it, that was a try.
INSERT INTO derived_chunks (stream, version, chunk, tries) VALUES (%(stream)s, %(version)s, %(chunk)s, 1)
ON CONFLICT (stream, version, chunk) DO UPDATE SET tries = derived_chunks.tries + 1

-- done --
-- All its rows are there.
UPDATE derived_chunks SET rows = %(rows)s, seconds = %(seconds)s, tries = 0, error = NULL,
    done_at = clock_timestamp()
WHERE stream = %(stream)s AND version = %(version)s AND chunk = %(chunk)s

-- untried --
-- Whoever began a chunk ended in good order: that was no try.
UPDATE derived_chunks SET tries = greatest(tries - 1, 0)
WHERE stream = %(stream)s AND version = %(version)s AND chunk = %(chunk)s

-- failed --
-- It cannot be computed.
UPDATE derived_chunks SET error = %(error)s
WHERE stream = %(stream)s AND version = %(version)s AND chunk = %(chunk)s

-- versions --
-- All versions of derived streams that are archived, or were begun.
SELECT DISTINCT stream, version FROM derived_chunks

-- forget --
-- A version that no rule needs any more: from now on nobody begins to read it.
DELETE FROM derived_chunks WHERE stream = %(stream)s AND version = %(version)s

-- kept --
-- Chunks but for those that expired so long ago that nobody reads what was archived of them.
SELECT id FROM chunks WHERE state <> 'expired' OR expired_at > clock_timestamp() - make_interval(secs => %(grace)s)

-- forget_chunks --
-- The rows of all others leave.
DELETE FROM derived_chunks WHERE NOT chunk = ANY(%(kept)s)

-- progress --
-- What is archived of derived streams.
SELECT stream, version, count(*) FILTER (WHERE done_at IS NOT NULL) AS chunks, coalesce(sum(rows), 0)::bigint AS rows,
    max(error) AS error
FROM derived_chunks GROUP BY stream, version ORDER BY stream
