-- chunks --
-- The whole catalog, oldest first; times in microseconds.
SELECT id, (extract(epoch FROM from_ts) * 1000000)::bigint AS from_ts,
       (extract(epoch FROM to_ts) * 1000000)::bigint AS to_ts, state
FROM chunks ORDER BY id

-- put_chunk --
-- Add a chunk, or fix the end of one.
INSERT INTO chunks (id, from_ts, to_ts, state) VALUES (%(id)s, %(from_ts)s, %(to_ts)s, %(state)s)
ON CONFLICT (id) DO UPDATE SET to_ts = excluded.to_ts

-- kept --
-- What was done for each chunk at which version, and for how many seconds it has been expired.
SELECT c.id, c.version, coalesce(jsonb_object_agg(p.name, p.version) FILTER (WHERE p.name IS NOT NULL), '{}') AS done,
       coalesce(extract(epoch FROM clock_timestamp() - c.expired_at), 0)::double precision AS expired
FROM chunks c LEFT JOIN preparations p ON p.chunk = c.id GROUP BY c.id ORDER BY c.id

-- present --
-- Chunks that are written to.
SELECT id FROM chunks WHERE state = 'present'

-- become --
-- A chunk's next state.
UPDATE chunks SET state = %(state)s,
    closed_at = CASE WHEN %(state)s = 'recent' THEN clock_timestamp() ELSE closed_at END,
    expired_at = CASE WHEN %(state)s = 'expired' THEN clock_timestamp() END
WHERE id = %(id)s

-- prepared --
-- Work is done for a chunk; no row: it was known.
INSERT INTO preparations (chunk, name, version) VALUES (%(chunk)s, %(name)s, %(version)s)
ON CONFLICT (chunk, name) DO UPDATE SET version = excluded.version, done_at = clock_timestamp()
    WHERE preparations.version < excluded.version
RETURNING chunk

-- forget_rows --
-- Rows of source units leave the archive with their chunk; those of units that are folded count in their stream's row.
WITH gone AS (
    SELECT * FROM unnest(%(streams)s::text[], %(units)s::bigint[], %(rows)s::bigint[]) AS g (stream, unit, rows)
), known AS (
    UPDATE units u SET forgotten = u.forgotten + g.rows FROM gone g WHERE u.id = g.unit RETURNING u.id)
UPDATE units u SET forgotten = u.forgotten + f.rows
FROM (SELECT stream, sum(rows)::bigint AS rows FROM gone WHERE unit NOT IN (SELECT id FROM known) GROUP BY stream) f
WHERE u.stream = f.stream AND u.unit = ''

-- came_late --
-- Rows came late into chunks.
UPDATE chunks SET version = version + 1, late_at = clock_timestamp() WHERE id = ANY(%(ids)s)

-- versions --
-- How often rows came late into each chunk.
SELECT id, version FROM chunks

-- streams --
-- How far each stream has been read.
SELECT name, newest, advanced FROM streams

-- add_stream --
-- A declared stream is known from now on.
INSERT INTO streams (name) VALUES (%(name)s) ON CONFLICT DO NOTHING

-- move_newest --
-- A finished source unit may hold the newest event time of its stream.
UPDATE streams SET newest = greatest(newest, %(newest)s) WHERE name = %(name)s

-- advance --
-- The stream is moved on without data; rows before the point are late from now on.
UPDATE streams SET advanced = greatest(advanced, %(advanced)s) WHERE name = %(name)s

-- partitions --
-- How far each partition has been read.
SELECT stream, partition, next, newest, advanced FROM partitions

-- put_partition --
-- A range of a partition is archived, or it was moved on without data; nothing ever moves back.
INSERT INTO partitions (stream, partition, next, newest, advanced)
VALUES (%(stream)s, %(partition)s, %(next)s, %(newest)s, %(advanced)s)
ON CONFLICT (stream, partition) DO UPDATE SET next = greatest(partitions.next, excluded.next),
    newest = greatest(partitions.newest, excluded.newest), advanced = greatest(partitions.advanced, excluded.advanced)

-- open_unit --
-- The ledger row of a source unit, made when first seen.
INSERT INTO units (stream, unit) VALUES (%(stream)s, %(unit)s)
ON CONFLICT (stream, unit) DO UPDATE SET unit = excluded.unit
RETURNING id, done

-- finish_unit --
-- A source unit is archived; its counters replace what an earlier, broken reading may have left.
UPDATE units SET done = true, done_at = clock_timestamp(), newest = %(newest)s, read = %(read)s,
    archived = %(archived)s, late = %(late)s, duplicates = %(duplicates)s, malformed = %(malformed)s,
    quarantined = %(quarantined)s, conflicts = %(conflicts)s, expired = %(expired)s, fields = %(fields)s
WHERE id = %(id)s

-- letters_to_retry --
-- Dead letters of some streams that are to be retried, by unit.
SELECT u.stream, d.unit_id, d.line, d.reason, d.raw, u.fields FROM dead_letters d JOIN units u ON u.id = d.unit_id
WHERE d.retry AND u.stream = ANY(%(streams)s::text[]) ORDER BY u.stream, d.unit_id, d.line LIMIT %(limit)s

-- still_to_retry --
-- How many dead letters, of some streams or of all, wait to be retried.
SELECT count(*) FROM dead_letters d JOIN units u ON u.id = d.unit_id
WHERE d.retry AND (%(streams)s::text[] IS NULL OR u.stream = ANY(%(streams)s::text[]))

-- still_dead --
-- How many of the named lines are dead letters that do not wait to be retried.
SELECT count(*) FROM dead_letters d JOIN unnest(%(units)s::bigint[], %(lines)s::bigint[]) AS n (unit_id, line)
USING (unit_id, line)
WHERE NOT d.retry

-- mark_for_retry --
-- Dead letters that somebody wants retried, the oldest first.
UPDATE dead_letters d SET retry = true FROM (
    SELECT l.unit_id, l.line FROM dead_letters l JOIN units u ON u.id = l.unit_id
    WHERE (NOT %(named)s OR (l.unit_id, l.line) IN (SELECT * FROM unnest(%(units)s::bigint[], %(lines)s::bigint[])))
      AND (%(stream)s::text IS NULL OR u.stream = %(stream)s) AND (%(reason)s::text IS NULL OR l.reason = %(reason)s)
    ORDER BY l.at, l.unit_id, l.line LIMIT %(most)s) AS wanted
WHERE d.unit_id = wanted.unit_id AND d.line = wanted.line
RETURNING d.unit_id, d.line

-- drop_letters --
-- Dead letters that are none any more, or that are put again.
DELETE FROM dead_letters WHERE unit_id = %(unit_id)s AND line = ANY(%(lines)s)

-- change_counters --
-- Some of a unit's records have become something else.
UPDATE units SET read = read + %(read)s, archived = archived + %(archived)s, late = late + %(late)s,
    duplicates = duplicates + %(duplicates)s, malformed = malformed + %(malformed)s,
    quarantined = quarantined + %(quarantined)s, conflicts = conflicts + %(conflicts)s,
    expired = expired + %(expired)s
WHERE id = %(id)s

-- put_dead_letter --
-- A refused line; a second reading of the unit finds it there already.
INSERT INTO dead_letters (unit_id, line, reason, detail, raw)
VALUES (%(unit_id)s, %(line)s, %(reason)s, %(detail)s, %(raw)s) ON CONFLICT DO NOTHING

-- done_units --
-- The finished units of a stream, all or those of some names.
SELECT unit FROM units WHERE stream = %(stream)s AND done
  AND (%(units)s::text[] IS NULL OR unit = ANY(%(units)s::text[]))

-- counters_of --
-- What became of the records of some finished units.
SELECT unit, read, archived, late, duplicates, malformed, quarantined, conflicts, expired FROM units
WHERE stream = %(stream)s AND unit = ANY(%(units)s) AND done

-- accounting --
-- What became of all records, by stream.
SELECT s.name AS stream, coalesce(sum(u.read), 0)::bigint AS read, coalesce(sum(u.archived), 0)::bigint AS archived,
       coalesce(sum(u.late), 0)::bigint AS late, coalesce(sum(u.duplicates), 0)::bigint AS duplicates,
       coalesce(sum(u.malformed), 0)::bigint AS malformed, coalesce(sum(u.quarantined), 0)::bigint AS quarantined,
       coalesce(sum(u.conflicts), 0)::bigint AS conflicts,
       coalesce(sum(u.expired), 0)::bigint AS expired, coalesce(sum(u.forgotten), 0)::bigint AS forgotten,
       coalesce(sum(CASE WHEN u.unit = '' THEN u.folded ELSE 1 END) FILTER (WHERE u.done), 0)::bigint AS units,
       count(u.id) FILTER (WHERE NOT u.done) AS open_units
FROM streams s LEFT JOIN units u ON u.stream = s.name GROUP BY s.name ORDER BY s.name

-- dead_letters --
-- Refused lines, newest first.
SELECT d.unit_id || ':' || d.line AS id, u.stream, u.unit AS source, d.line, d.reason, d.detail, d.raw, d.at, d.retry
FROM dead_letters d JOIN units u ON u.id = d.unit_id
WHERE (%(stream)s::text IS NULL OR u.stream = %(stream)s) AND (%(reason)s::text IS NULL OR d.reason = %(reason)s)
ORDER BY d.at DESC, d.unit_id DESC, d.line DESC LIMIT %(limit)s
