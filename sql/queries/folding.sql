-- foldable --
-- Source units of a stream, after an id, that are done for a while, whose chunks are closed, and that have no dead
-- letters; what was posted under a key may be posted again for as long as the key is known.
SELECT id, unit FROM units u
WHERE stream = %(stream)s AND id > %(after)s AND done AND unit <> '' AND (newest IS NULL OR newest < %(sealed)s)
  AND done_at < clock_timestamp() - CASE WHEN unit LIKE 'push-key-%%' THEN %(keys)s ELSE %(least)s END
  AND NOT EXISTS (SELECT FROM dead_letters d WHERE d.unit_id = u.id)
ORDER BY id LIMIT %(limit)s

-- fold --
-- Source units become part of the one row of their stream that stands for all of these.
WITH gone AS (
    DELETE FROM units u WHERE id = ANY(%(ids)s) AND done AND stream = %(stream)s
      AND NOT EXISTS (SELECT FROM dead_letters d WHERE d.unit_id = u.id)
    RETURNING *)
INSERT INTO units AS u (stream, unit, done, done_at, newest, read, archived, late, duplicates, malformed, quarantined,
    conflicts, expired, forgotten, dropped, folded)
SELECT %(stream)s, '', true, max(done_at), max(newest), sum(read), sum(archived), sum(late), sum(duplicates),
    sum(malformed), sum(quarantined), sum(conflicts), sum(expired), sum(forgotten), sum(dropped), count(*)
FROM gone HAVING count(*) > 0
ON CONFLICT (stream, unit) DO UPDATE SET done_at = greatest(u.done_at, excluded.done_at),
    newest = greatest(u.newest, excluded.newest), read = u.read + excluded.read,
    archived = u.archived + excluded.archived, late = u.late + excluded.late,
    duplicates = u.duplicates + excluded.duplicates, malformed = u.malformed + excluded.malformed,
    quarantined = u.quarantined + excluded.quarantined, conflicts = u.conflicts + excluded.conflicts,
    expired = u.expired + excluded.expired, forgotten = u.forgotten + excluded.forgotten,
    dropped = u.dropped + excluded.dropped, folded = u.folded + excluded.folded

-- drop_letters --
-- Dead letters of long ago that nobody wants retried; their units know how many.
WITH gone AS (
    DELETE FROM dead_letters WHERE (unit_id, line) IN (
        SELECT unit_id, line FROM dead_letters
        WHERE at < clock_timestamp() - %(keep)s::interval AND NOT retry ORDER BY at LIMIT %(limit)s)
    RETURNING unit_id)
UPDATE units u SET dropped = u.dropped + g.n FROM (SELECT unit_id, count(*) AS n FROM gone GROUP BY unit_id) g
WHERE u.id = g.unit_id RETURNING g.n

-- forget_chunks --
-- Of chunks that have left, before one of them, nothing is known any more.
DELETE FROM chunks WHERE id < %(oldest)s

-- begin_with --
-- The oldest chunk that is known.
UPDATE chunks SET from_ts = NULL WHERE id = %(oldest)s
