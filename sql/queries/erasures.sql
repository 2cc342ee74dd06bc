-- get_key --
-- The key of the keyed hashes of erased rows and conditions.
SELECT erasure_key FROM workspace

-- put_key --
-- Take over the key of the list of erasures that a restore applies.
UPDATE workspace SET erasure_key = %(key)s

-- try_lock --
-- The lock of the one erasure that runs, as long as the connection lives.
SELECT pg_try_advisory_lock(hashtextextended('moirae erasure', 0))

-- start --
-- Record an erasure, once.
INSERT INTO erasures (id, author, condition_hash, streams, state)
VALUES (%(id)s, %(author)s, %(condition_hash)s, %(streams)s, %(state)s)
ON CONFLICT (id) DO NOTHING

-- add_rows --
-- Record erased rows. Returns how many of each unit are new.
WITH added AS (
    INSERT INTO erased_rows (stream, hash, unit, line, hour, erasure)
    SELECT %(stream)s, decode(r.hash, 'hex'), r.unit, r.line, r.hour, %(erasure)s
    FROM jsonb_to_recordset(%(rows)s::jsonb) AS r (hash text, unit bigint, line bigint, hour bigint)
    ON CONFLICT DO NOTHING RETURNING unit, hour)
SELECT unit, count(*) AS rows, min(hour) AS first_hour, max(hour) AS last_hour FROM added GROUP BY unit

-- count_rows --
-- Add the number of rows of an erasure and the hours of their event times.
UPDATE erasures SET rows = rows + %(rows)s,
    first_ts = least(first_ts, to_timestamp(%(first_hour)s::bigint * 3600)),
    last_ts = greatest(last_ts, to_timestamp((%(last_hour)s::bigint + 1) * 3600))
WHERE id = %(id)s

-- list_rows --
-- The erased rows of a stream: of all erasures, or of one.
SELECT hash, unit, line, hour FROM erased_rows
WHERE stream = %(stream)s AND (%(erasure)s::uuid IS NULL OR erasure = %(erasure)s)

-- add_values --
INSERT INTO erased_values (erasure, value) SELECT %(erasure)s, unnest(%(values)s::text[]) ON CONFLICT DO NOTHING

-- list_values --
-- The values that an erasure is to remove everywhere.
SELECT value FROM erased_values WHERE erasure = %(erasure)s ORDER BY value

-- add_events --
INSERT INTO erased_events (erasure, eid) SELECT %(erasure)s, unnest(%(events)s::uuid[]) ON CONFLICT DO NOTHING

-- list_events --
-- The events that an erasure removes with all that belongs to them.
SELECT eid FROM erased_events WHERE erasure = %(erasure)s

-- put_state --
-- Store how far an erasure is, and what it did where.
UPDATE erasures SET state = %(state)s, effects = effects || %(effects)s,
    finished_at = CASE WHEN %(state)s = 'done' THEN clock_timestamp() END
WHERE id = %(id)s

-- add_changes --
-- Add numbers of changed records to the effects of an erasure.
UPDATE erasures SET effects = effects || jsonb_build_object('changed', (
    SELECT coalesce(jsonb_object_agg(name, records), '{}') FROM (
        SELECT key AS name, sum(value::bigint) AS records FROM (
            SELECT * FROM jsonb_each_text(coalesce(effects->'changed', '{}'))
            UNION ALL SELECT * FROM jsonb_each_text(%(counts)s)) c
        GROUP BY key) s))
WHERE id = %(id)s

-- forget_values --
DELETE FROM erased_values WHERE erasure = %(erasure)s

-- forget_events --
DELETE FROM erased_events WHERE erasure = %(erasure)s

-- list_all --
-- All erasures, oldest first.
SELECT id, author, condition_hash, streams, rows, state, first_ts, last_ts, effects, started_at, finished_at
FROM erasures ORDER BY started_at, id

-- list_later --
-- The streams of which rows were erased after a time.
SELECT DISTINCT unnest(streams) FROM erasures WHERE rows > 0 AND coalesce(finished_at, clock_timestamp()) > %(time)s

-- list_source_names --
-- The names of some source units; those that were compacted have none any more.
SELECT unit FROM units WHERE id = ANY(%(units)s::bigint[]) AND unit <> '' ORDER BY unit

-- list_units --
-- The source units of the rows of an erasure.
SELECT DISTINCT stream, unit FROM erased_rows WHERE erasure = %(erasure)s

-- list_declarations --
-- The rules, as they are declared.
SELECT definition::text FROM rules

-- list_backups --
-- The complete backups whose state is from before a time.
SELECT destination, name FROM backups WHERE name IS NOT NULL AND taken_at <= %(before)s ORDER BY taken_at

-- find_moments --
-- Events at some times.
SELECT e.eid, (extract(epoch FROM e.ts) * 1000000)::bigint AS ts, e.key, e.attributes FROM events e
WHERE (extract(epoch FROM e.ts) * 1000000)::bigint = ANY(%(times)s::bigint[])

-- count_unfinished --
-- How many erasures have not ended.
SELECT count(*) FROM erasures WHERE finished_at IS NULL
