-- list_after --
-- Changes after a position, in the order of (xid, id), of transactions older than all that still run.
SELECT xid::text::bigint AS xid, id, kind, key, number, at, version, name FROM changes
WHERE (xid, id) > (%(xid)s::text::xid8, %(id)s)
  AND xid < pg_snapshot_xmin(pg_current_snapshot())
ORDER BY xid, id LIMIT %(limit)s

-- position --
-- The position of the newest final change; (0, 0) without changes.
SELECT coalesce(max(c.xid::text::bigint), 0) AS xid, coalesce(max(c.id), 0) AS id FROM (
    SELECT xid, id FROM changes WHERE xid < pg_snapshot_xmin(pg_current_snapshot())
    ORDER BY xid DESC, id DESC LIMIT 1) c

-- oldest --
-- The position of the oldest stored change; (0, 0) without changes.
SELECT coalesce(min(c.xid::text::bigint), 0) AS xid, coalesce(min(c.id), 0) AS id FROM (
    SELECT xid, id FROM changes ORDER BY xid, id LIMIT 1) c

-- delete_restored --
-- Delete changes of another database cluster, from which this one was restored: their transactions are in the future.
DELETE FROM changes WHERE xid >= pg_snapshot_xmax(pg_current_snapshot())

-- list_alerts --
-- The present state of alerts.
SELECT id, eid, rule, state, history, key, labels, annotations, starts_at, fired_at, last_at, ends_at, events, updated_at,
    (SELECT n.author FROM alert_notes n WHERE n.alert_id = alerts.id AND n.kind = 'ack' ORDER BY n.at DESC, n.id DESC LIMIT 1)
        AS acknowledged_by,
    (SELECT n.assignee FROM alert_notes n WHERE n.alert_id = alerts.id AND n.kind = 'assign' ORDER BY n.at DESC, n.id DESC LIMIT 1)
        AS assigned_to
FROM alerts WHERE id = ANY(%(ids)s)

-- list_recalls --
-- The present state of recalls.
SELECT t.id, t.eid, t.rule, t.recall, t.request->>'kind' AS kind, t.state, t.revision, t.next AS read,
    coalesce(t.piece_count, jsonb_array_length(t.pieces)) AS pieces, t.failed, t.tickets, t.error, t.deadline
FROM tasks t WHERE t.id = ANY(%(ids)s)

-- list_boundaries --
-- Events that have ended, by event and version.
SELECT r.rule, r.version, r.eid, r.ended_at AS at
FROM unnest(%(eids)s::uuid[], %(versions)s::text[]) AS wanted (eid, version)
JOIN recalled_events r ON r.eid = wanted.eid AND r.version = wanted.version AND r.ended_at IS NOT NULL

-- get_stage --
-- A stage with its present rows, which are NULL if their text is too large.
SELECT g.eid, g.rule, g.version, g.name, g.state, g.revision, g.error, g.updated_at AS at,
    CASE WHEN octet_length(p.rows::text) <= %(max_bytes)s THEN p.rows END AS rows
FROM stages g CROSS JOIN LATERAL (
    SELECT coalesce(jsonb_agg(l.row ORDER BY l.seq), '[]') AS rows FROM (
        SELECT DISTINCT ON (v.row_key) v.row_key, v.op, v.row, v.seq FROM row_revisions v
        JOIN revision_streams s ON s.id = v.stream AND s.rule = g.rule AND s.name = g.name
        WHERE v.eid = g.eid AND v.version = g.version AND v.op <> 'boundary'
        ORDER BY v.row_key, v.seq DESC) l WHERE l.op <> 'delete') p
WHERE g.eid = %(eid)s AND g.version = %(version)s AND g.name = %(name)s

-- get_revision --
-- A revision of a recall; answer and estimates are NULL if their text is too large.
SELECT t.id AS task, t.eid, t.rule, t.recall, t.request->>'kind' AS kind, t.request->>'sql' AS sql, r.number, r.final,
    r.coverage, CASE WHEN s.is_small THEN r.answer END AS answer, CASE WHEN s.is_small THEN r.estimates END AS estimates,
    shown_comparable(t, r.forecast, r.comparable) AS comparable, r.match, shown_forecast(t, r.forecast) AS forecast, r.at
FROM revisions r JOIN tasks t ON t.id = r.task
CROSS JOIN LATERAL (SELECT octet_length(r.answer::text) + coalesce(octet_length(r.estimates::text), 0) <= %(max_bytes)s
    AS is_small) s
WHERE r.task = %(task)s AND r.number = %(number)s

-- list_revisions_after --
-- The revisions of a recall after a number, in order.
SELECT t.id AS task, t.eid, t.rule, t.recall, t.request->>'kind' AS kind, t.request->>'sql' AS sql, r.number, r.final,
    r.coverage, r.answer, r.estimates, shown_comparable(t, r.forecast, r.comparable) AS comparable, r.match,
    shown_forecast(t, r.forecast) AS forecast, r.at
FROM revisions r JOIN tasks t ON t.id = r.task
WHERE r.task = %(task)s AND r.number > %(after)s ORDER BY r.number LIMIT %(limit)s
