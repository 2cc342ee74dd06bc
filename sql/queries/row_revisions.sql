-- append --
-- Number and store changes of a stream; returns the last number. The row of the stream stays locked until the
-- transaction ends.
WITH stream AS (
    INSERT INTO revision_streams (rule, name, last_seq) VALUES (%(rule)s, %(name)s, %(count)s)
    ON CONFLICT (rule, name) DO UPDATE SET last_seq = revision_streams.last_seq + excluded.last_seq
    RETURNING id, last_seq),
appended AS (
    INSERT INTO row_revisions (stream, seq, eid, version, ts, op, row_key, row, old_row)
    SELECT stream.id, stream.last_seq - %(count)s + change.number, (change.item->>0)::uuid, change.item->>1,
        (change.item->>2)::timestamptz, change.item->>3, change.item->>4, nullif(change.item->5, 'null'),
        nullif(change.item->6, 'null')
    FROM stream, jsonb_array_elements(%(changes)s::jsonb) WITH ORDINALITY AS change (item, number)),
counted AS (
    INSERT INTO flows (kind, name, since, rows)
    SELECT 'revisions', %(rule)s || '/' || %(name)s, date_bin('30 seconds', clock_timestamp(), 'epoch'), %(count)s
    ON CONFLICT (kind, name, since) DO UPDATE SET rows = flows.rows + excluded.rows)
SELECT id, last_seq - %(count)s AS before, last_seq AS last FROM stream

-- list_current --
-- The present rows of an event by stream: the last revision of each key.
SELECT s.name, r.row_key, r.row FROM revision_streams s CROSS JOIN LATERAL (
    SELECT DISTINCT ON (row_key) row_key, op, row, seq FROM row_revisions
    WHERE stream = s.id AND eid = %(eid)s AND version = %(version)s AND op <> 'boundary'
    ORDER BY row_key, seq DESC) r
WHERE s.rule = %(rule)s AND (%(name)s::text IS NULL OR s.name = %(name)s) AND r.op <> 'delete'
ORDER BY s.name, r.seq

-- list_of_events --
-- The revisions of some events of a rule behind a number, in order.
SELECT s.name, r.seq, r.eid, r.version, r.op, r.row_key, r.row
FROM unnest(%(names)s::text[], %(eids)s::uuid[], %(versions)s::text[], %(after)s::bigint[]) AS p (name, eid, version, after)
JOIN revision_streams s ON s.rule = %(rule)s AND s.name = p.name
JOIN row_revisions r ON r.stream = s.id AND r.eid = p.eid AND r.version = p.version AND r.seq > p.after
ORDER BY s.name, r.seq

-- list_changed_events --
-- The events that have revisions behind a number of each stream.
SELECT s.rule, c.version, c.eid
FROM unnest(%(streams)s::integer[], %(after)s::bigint[]) AS p (stream, after)
JOIN revision_streams s ON s.id = p.stream
CROSS JOIN LATERAL (
    SELECT DISTINCT r.version, r.eid FROM row_revisions r WHERE r.stream = p.stream AND r.seq > p.after) c

-- list_streams --
-- All streams with their last numbers.
SELECT id, rule, name, last_seq, archived, trimmed_to FROM revision_streams ORDER BY rule, name

-- list_of_open_events --
-- The streams of rules that have open events with stages or a condition.
SELECT id, rule, name, last_seq, archived, trimmed_to FROM revision_streams
WHERE rule IN (SELECT DISTINCT rule FROM recalled_events WHERE ended_at IS NULL AND has_stages) ORDER BY rule, name

-- get_stream --
-- One stream.
SELECT id, rule, name, last_seq, archived, trimmed_to FROM revision_streams WHERE id = %(stream)s

-- find_streams --
-- Streams by name: the name of the recall or stage, or that name behind the name of its rule.
SELECT id, rule, name, last_seq, archived, trimmed_to FROM revision_streams
WHERE name = %(name)s OR rule || '/' || name = %(name)s OR rule || '/' || name LIKE '%%/' || %(name)s
ORDER BY rule, name

-- read --
-- Revisions of a stream behind a number, in order.
SELECT seq, eid, version, ts, op, row_key, row, old_row, at FROM row_revisions
WHERE stream = %(stream)s AND seq > %(after)s ORDER BY seq LIMIT %(limit)s

-- list_rows --
-- The present rows of the events of a rule in a range of event time, with the keys of the events.
SELECT v.seq, v.eid, v.version, v.ts, v.op, v.row_key, v.row, v.key FROM (
    SELECT DISTINCT ON (e.ts, e.eid, e.version, r.row_key)
        r.seq, e.eid, e.version, e.ts, r.op, r.row_key, r.row, coalesce(e.event->'key', '{}') AS key
    FROM recalled_events e
    JOIN revision_streams s ON s.rule = e.rule AND s.name = %(name)s
    JOIN row_revisions r ON r.stream = s.id AND r.eid = e.eid AND r.version = e.version AND r.op <> 'boundary'
    WHERE e.rule = %(rule)s AND (%(start)s::timestamptz IS NULL OR e.ts >= %(start)s)
      AND (%(end)s::timestamptz IS NULL OR e.ts < %(end)s)
    ORDER BY e.ts, e.eid, e.version, r.row_key, r.seq DESC) v
WHERE v.op <> 'delete' ORDER BY v.ts, v.seq

-- list_revisions --
-- All revisions of the rows of these events.
SELECT r.seq, e.eid, e.version, e.ts, r.op, r.row_key, r.row, coalesce(e.event->'key', '{}') AS key
FROM recalled_events e
JOIN revision_streams s ON s.rule = e.rule AND s.name = %(name)s
JOIN row_revisions r ON r.stream = s.id AND r.eid = e.eid AND r.version = e.version
WHERE e.rule = %(rule)s AND (%(start)s::timestamptz IS NULL OR e.ts >= %(start)s)
  AND (%(end)s::timestamptz IS NULL OR e.ts < %(end)s)
ORDER BY r.seq

-- list_event_keys --
-- The keys of events of a rule.
SELECT eid, version, coalesce(event->'key', '{}') FROM recalled_events WHERE rule = %(rule)s AND eid = ANY(%(eids)s)

-- count_open_events --
-- Number of events of some rules without boundary.
SELECT count(*) FROM recalled_events WHERE rule = ANY(%(rules)s) AND ended_at IS NULL

-- boundary --
-- The event time up to which no revision of a rule follows; NULL: not known.
SELECT least(
    (SELECT max(d.settled_to) FROM deployments d WHERE d.rule = %(rule)s AND d.state <> 'stopped'),
    (SELECT min(r.ts) FROM recalled_events r WHERE r.rule = %(rule)s AND r.ended_at IS NULL),
    (SELECT min(c.ts) FROM contexts c WHERE c.rule = %(rule)s AND NOT c.settled AND c.corpus IS NULL AND NOT c.past),
    (SELECT min(a.starts_at) FROM alerts a
     WHERE a.rule = %(rule)s AND a.ends_at IS NULL AND a.state = 'pending' AND NOT a.past))
WHERE EXISTS (SELECT FROM deployments d WHERE d.rule = %(rule)s AND d.state <> 'stopped' AND d.settled_to IS NOT NULL)

-- record_archived --
-- Record up to which number the revisions of a stream are archived.
UPDATE revision_streams SET archived = %(number)s WHERE id = %(stream)s AND archived < %(number)s

-- forget_archived --
-- Record that no revisions of a stream are archived.
UPDATE revision_streams SET archived = 0 WHERE id = %(stream)s

-- expired_before --
-- The end of the chunks that are deleted with all before them, but no later than an open event of a rule. NULL: there
-- are none.
WITH deleted AS (
    SELECT c.id, c.to_ts, c.state = 'expired' AND EXISTS (
        SELECT FROM preparations p WHERE p.chunk = c.id AND p.name = 'forget') AS gone
    FROM chunks c)
SELECT least(max(d.to_ts), (SELECT min(r.ts) FROM recalled_events r WHERE r.rule = %(rule)s AND r.ended_at IS NULL))
FROM deleted d WHERE d.gone AND NOT EXISTS (SELECT FROM deleted k WHERE NOT k.gone AND k.id < d.id)
HAVING max(d.to_ts) IS NOT NULL

-- lock_archive --
-- Take the lock of the process that archives revisions, until the transaction ends.
SELECT pg_try_advisory_xact_lock(hashtext('moirae revision archive'))

-- export_stages --
-- The stages of all events with their present rows, oldest event first.
SELECT r.eid, r.rule, r.version, g.name, g.state, g.revision, g.error, r.event->'key' AS key, (
    SELECT coalesce(jsonb_agg(l.row ORDER BY l.seq), '[]') FROM (
        SELECT DISTINCT ON (v.row_key) v.row_key, v.op, v.row, v.seq FROM row_revisions v
        JOIN revision_streams s ON s.id = v.stream AND s.rule = r.rule AND s.name = g.name
        WHERE v.eid = r.eid AND v.version = r.version AND v.op <> 'boundary'
        ORDER BY v.row_key, v.seq DESC) l WHERE l.op <> 'delete') AS rows
FROM stages g JOIN recalled_events r USING (rule, version, eid)
WHERE %(eid)s::uuid IS NULL OR r.eid = %(eid)s::uuid
ORDER BY r.ts, r.eid, r.version, g.name
