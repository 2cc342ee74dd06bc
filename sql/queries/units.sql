-- open --
-- The id, status and clock of a source unit; its row is inserted when the unit is opened first.
INSERT INTO units (stream, unit, clock, partition)
VALUES (%(stream)s, %(unit)s, %(clock)s, %(partition)s)
ON CONFLICT (stream, unit) DO UPDATE SET unit = excluded.unit,
    clock = CASE WHEN units.done THEN units.clock ELSE coalesce(units.clock, excluded.clock) END
RETURNING id, done, clock

-- open_files --
-- The same for many units of one stream, in order; ids grow with their positions.
INSERT INTO units (stream, unit, clock, place, stamp)
SELECT %(stream)s, unit, %(clock)s, place, stamp
FROM unnest(%(units)s::text[], %(places)s::text[], %(stamps)s::text[])
    WITH ORDINALITY AS opened (unit, place, stamp, position) ORDER BY position
ON CONFLICT (stream, unit) DO UPDATE SET unit = excluded.unit,
    clock = CASE WHEN units.done THEN units.clock ELSE coalesce(units.clock, excluded.clock) END,
    place = CASE WHEN units.done THEN units.place ELSE excluded.place END,
    stamp = CASE WHEN units.done THEN units.stamp ELSE excluded.stamp END
RETURNING unit, id, done, clock

-- rename_open_range --
-- Let a range of a partition that was begun, but not finished, have a new last record.
UPDATE units u SET unit = %(unit)s
WHERE id = (SELECT max(o.id) FROM units o WHERE o.stream = %(stream)s AND NOT o.done
        AND o.partition = %(partition)s AND starts_with(o.unit, %(prefix)s))
    AND NOT EXISTS (SELECT FROM units n WHERE n.stream = %(stream)s AND n.unit = %(unit)s)

-- list_partition_clocks --
-- The clocks at which the unfinished ranges of partitions were first read.
SELECT partition, max(clock) FROM units
WHERE stream = %(stream)s AND NOT done AND partition IS NOT NULL AND clock IS NOT NULL
GROUP BY partition

-- abandon_ranges --
-- Ranges of partitions that were begun will not be read again: their clocks do not count.
UPDATE units SET partition = NULL
WHERE stream = %(stream)s AND NOT done AND partition IS NOT NULL
  AND (%(partitions)s::text[] IS NULL OR partition = ANY(%(partitions)s::text[]))

-- list_unfinished --
-- The units that were begun and not finished.
SELECT stream, unit FROM units WHERE NOT done

-- finish --
-- Mark source units as archived; their counters replace those of an interrupted read. Rows that it
-- had archived, and that were not read again, are added: the file was changed meanwhile.
UPDATE units u SET done = true, done_at = clock_timestamp(), newest = f.newest,
    read = f.read + greatest(u.archived - f.replayed, 0),
    archived = f.archived + greatest(u.archived - f.replayed, 0),
    late = f.late + greatest(u.late - f.replayed_late, 0),
    duplicates = f.duplicates, malformed = f.malformed,
    quarantined = f.quarantined, conflicts = f.conflicts, expired = f.expired,
    late_by_ahead = f.late_by_ahead, erased_again = f.erased_again, tombstones = f.tombstones, punctuations = f.punctuations, fields = f.fields,
    format = f.format, size = f.size, modified = f.modified
FROM jsonb_to_recordset(%(rows)s::jsonb) AS f (id bigint, newest timestamptz, read bigint,
    archived bigint, late bigint, duplicates bigint, malformed bigint, quarantined bigint,
    conflicts bigint, expired bigint, late_by_ahead bigint, tombstones bigint, punctuations bigint, fields text[],
    format jsonb, size bigint, modified bigint, replayed bigint, replayed_late bigint,
    erased_again bigint)
WHERE u.id = f.id

-- add_interrupted --
-- Count rows that interrupted reads have archived, of units that are not finished.
UPDATE units u SET read = u.read + i.archived, archived = u.archived + i.archived,
    late = u.late + i.late
FROM unnest(%(ids)s::bigint[], %(archived)s::bigint[], %(late)s::bigint[]) AS i (id, archived, late)
WHERE u.id = i.id AND NOT u.done

-- put_version --
-- Store the version of a file that was read, and how often it was.
UPDATE units SET size = %(size)s, modified = %(modified)s, readings = %(readings)s
WHERE stream = %(stream)s AND unit = %(unit)s

-- list_versions --
-- The versions in which some files were last read.
SELECT unit, size, modified, readings FROM units
WHERE stream = %(stream)s AND done AND unit = ANY(%(units)s)

-- list_places --
-- The places of files with some inodes, by their stamps, the last that were opened first.
SELECT stamp, place FROM units
WHERE stream = %(stream)s AND stamp IS NOT NULL AND split_part(stamp, ':', 1) = ANY(%(inodes)s)
ORDER BY id DESC

-- list_places_of_names --
-- The stamps and places of files that were read under some names.
SELECT unit, stamp, place FROM units
WHERE stream = %(stream)s AND stamp IS NOT NULL AND unit = ANY(%(units)s)

-- add_counters --
-- Add changes to the counters of a unit.
UPDATE units SET read = read + %(read)s, archived = archived + %(archived)s,
    late = late + %(late)s, duplicates = duplicates + %(duplicates)s,
    malformed = malformed + %(malformed)s, quarantined = quarantined + %(quarantined)s,
    conflicts = conflicts + %(conflicts)s, expired = expired + %(expired)s,
    late_by_ahead = late_by_ahead + %(late_by_ahead)s, punctuations = punctuations + %(punctuations)s,
    erased_again = erased_again + %(erased_again)s
WHERE id = %(id)s

-- add_deleted_rows --
-- Count rows deleted with their chunk; those of compacted units count for the row of their stream.
WITH deleted AS (
    SELECT * FROM unnest(%(streams)s::text[], %(units)s::bigint[], %(rows)s::bigint[])
        AS d (stream, unit, rows)
), counted AS (
    UPDATE units u SET forgotten = u.forgotten + d.rows FROM deleted d WHERE u.id = d.unit
    RETURNING u.id)
UPDATE units u SET forgotten = u.forgotten + s.rows
FROM (SELECT stream, sum(rows)::bigint AS rows FROM deleted
      WHERE unit NOT IN (SELECT id FROM counted) GROUP BY stream) s
WHERE u.stream = s.stream AND u.unit = ''

-- list_finished --
-- The names of the finished units of a stream: all, or those of some names.
SELECT unit FROM units WHERE stream = %(stream)s AND done
  AND (%(units)s::text[] IS NULL OR unit = ANY(%(units)s::text[]))

-- list_open --
-- The names of the units of a stream that were begun and are not finished.
SELECT unit FROM units WHERE stream = %(stream)s AND NOT done ORDER BY id

-- is_finished --
-- Whether a unit is finished.
SELECT done FROM units WHERE stream = %(stream)s AND unit = %(unit)s

-- list_counters --
-- The counters of those of some units that are finished.
SELECT unit, read, archived, late, late_by_ahead, duplicates, malformed, quarantined, conflicts,
    expired
FROM units WHERE stream = %(stream)s AND unit = ANY(%(units)s) AND done

-- sum_by_stream --
-- The sums of all counters, by stream.
SELECT s.name AS stream, coalesce(sum(u.read), 0)::bigint AS read,
       coalesce(sum(u.archived), 0)::bigint AS archived,
       coalesce(sum(u.late), 0)::bigint AS late,
       coalesce(sum(u.late_by_ahead), 0)::bigint AS late_by_ahead,
       coalesce(sum(u.duplicates), 0)::bigint AS duplicates,
       coalesce(sum(u.malformed), 0)::bigint AS malformed,
       coalesce(sum(u.quarantined), 0)::bigint AS quarantined,
       coalesce(sum(u.conflicts), 0)::bigint AS conflicts,
       coalesce(sum(u.expired), 0)::bigint AS expired,
       coalesce(sum(u.forgotten + u.erased), 0)::bigint AS deleted,
       coalesce(sum(u.erased), 0)::bigint AS erased,
       coalesce(sum(u.erased_again), 0)::bigint AS erased_again,
       coalesce(sum(u.tombstones), 0)::bigint AS tombstones,
       coalesce(sum(u.punctuations), 0)::bigint AS punctuations,
       coalesce(sum(CASE WHEN u.unit = '' THEN u.folded ELSE 1 END) FILTER (WHERE u.done), 0)::bigint
           AS units,
       count(u.id) FILTER (WHERE NOT u.done) AS open_units,
       count(u.id) FILTER (WHERE u.readings > 1) AS rewritten,
       count(u.id) FILTER (WHERE u.place <> u.unit
           AND NOT starts_with(u.unit, u.place || '#')) AS renamed
FROM streams s LEFT JOIN units u ON u.stream = s.name GROUP BY s.name ORDER BY s.name

-- list_ledger --
-- All units of a stream with their counters, oldest first.
SELECT id, unit, done, forgotten + erased AS deleted, read, archived, late, late_by_ahead, duplicates,
       malformed, quarantined, conflicts, expired
FROM units WHERE stream = %(stream)s ORDER BY id

-- find_page --
-- The last of some units after an id, and how many they are.
SELECT max(id), count(*) FROM (SELECT id FROM units
    WHERE stream = %(stream)s AND id > %(after)s ORDER BY id LIMIT %(limit)s) u

-- list_compactable --
-- Units of a range of ids that may be compacted: finished for `min_age` (batches with an idempotency key:
-- `key_lifetime`), with rows before `before` only, and without dead letters. The last reading of a
-- file stays with the first one: the file may be renamed.
SELECT id, unit FROM units u
WHERE stream = %(stream)s AND id > %(after)s AND id <= %(until)s AND done AND unit <> ''
  AND (newest IS NULL OR newest < %(before)s)
  AND done_at < clock_timestamp()
      - CASE WHEN unit LIKE 'push-key-%%' THEN %(key_lifetime)s::interval ELSE %(min_age)s::interval END
  AND NOT EXISTS (SELECT FROM dead_letters d WHERE d.unit_id = u.id)
  AND (stamp IS NULL OR NOT EXISTS (SELECT FROM units f WHERE f.stream = u.stream
      AND f.unit = regexp_replace(u.unit, '#[0-9]+$', '') AND f.readings > 1
      AND u.unit = f.unit || '#' || f.readings))
ORDER BY id LIMIT %(limit)s

-- compact --
-- Merge units into the row of their stream that stands for all compacted units.
WITH merged AS (
    DELETE FROM units u WHERE id = ANY(%(ids)s) AND done AND stream = %(stream)s
      AND NOT EXISTS (SELECT FROM dead_letters d WHERE d.unit_id = u.id)
    RETURNING *)
INSERT INTO units AS u (stream, unit, done, done_at, newest, read, archived, late, late_by_ahead,
    duplicates, malformed, quarantined, conflicts, expired, forgotten, dropped, tombstones, punctuations,
    folded, erased, erased_again)
SELECT %(stream)s, '', true, max(done_at), max(newest), sum(read), sum(archived), sum(late),
    sum(late_by_ahead), sum(duplicates), sum(malformed), sum(quarantined), sum(conflicts), sum(expired),
    sum(forgotten), sum(dropped), sum(tombstones), sum(punctuations), count(*), sum(erased), sum(erased_again)
FROM merged HAVING count(*) > 0
ON CONFLICT (stream, unit) DO UPDATE SET done_at = greatest(u.done_at, excluded.done_at),
    newest = greatest(u.newest, excluded.newest), read = u.read + excluded.read,
    archived = u.archived + excluded.archived, late = u.late + excluded.late,
    late_by_ahead = u.late_by_ahead + excluded.late_by_ahead,
    duplicates = u.duplicates + excluded.duplicates,
    malformed = u.malformed + excluded.malformed,
    quarantined = u.quarantined + excluded.quarantined,
    conflicts = u.conflicts + excluded.conflicts, expired = u.expired + excluded.expired,
    forgotten = u.forgotten + excluded.forgotten, dropped = u.dropped + excluded.dropped,
    tombstones = u.tombstones + excluded.tombstones,
    punctuations = u.punctuations + excluded.punctuations,
    folded = u.folded + excluded.folded,
    erased = u.erased + excluded.erased, erased_again = u.erased_again + excluded.erased_again

-- add_erased --
-- Count rows that were erased; those of compacted units count for the row of their stream.
WITH erased AS (
    SELECT * FROM unnest(%(streams)s::text[], %(units)s::bigint[], %(rows)s::bigint[])
        AS d (stream, unit, rows)
), counted AS (
    UPDATE units u SET erased = u.erased + d.rows FROM erased d WHERE u.id = d.unit RETURNING u.id)
UPDATE units u SET erased = u.erased + s.rows
FROM (SELECT stream, sum(rows)::bigint AS rows FROM erased
      WHERE unit NOT IN (SELECT id FROM counted) AND unit > 0 GROUP BY stream) s
WHERE u.stream = s.stream AND u.unit = ''
