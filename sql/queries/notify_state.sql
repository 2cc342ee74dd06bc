-- get_position --
-- Up to which change alerts are notified; NULL: none yet.
SELECT xid, change FROM notify_state

-- put_position --
-- Store up to which change alerts are notified.
UPDATE notify_state SET xid = %(xid)s, change = %(change)s

-- list_alert_changes --
-- The alerts of changes after a position, in the order of (xid, id), of transactions older than all that still run.
SELECT xid::text::bigint AS xid, id, key FROM changes
WHERE (xid, id) > (%(xid)s::text::xid8, %(id)s) AND kind = 'alert'
  AND xid < pg_snapshot_xmin(pg_current_snapshot())
ORDER BY xid, id LIMIT %(limit)s

-- list_raised_after --
-- Of some alerts, those whose first change as firing is after a position: none at or before it is newer than that time.
SELECT id FROM alerts a
WHERE id = ANY(%(ids)s) AND raised_at >= (SELECT min(at) FROM changes) AND NOT EXISTS (
    SELECT FROM changes c WHERE c.kind = 'alert' AND c.key = a.id AND c.at >= a.raised_at
      AND (c.xid, c.id) <= (%(xid)s::text::xid8, %(id)s))

-- list_alerts --
-- Alerts as they are now.
SELECT id, eid, rule, version, key, labels, annotations, state, history, history_final, starts_at, fired_at, ends_at, end_reason,
    coalesce(raised_at, created_at) AS raised_at, updated_at, past OR quiet AS past, EXISTS (SELECT FROM alert_notes n WHERE n.alert_id = alerts.id AND n.kind = 'ack') AS acknowledged,
    (SELECT m.incident FROM incident_alerts m WHERE m.alert_id = alerts.id) AS incident
FROM alerts WHERE id = ANY(%(ids)s)

-- list_active --
-- The alerts that fire now.
SELECT id FROM alerts
WHERE fired_at IS NOT NULL AND ends_at IS NULL AND NOT past AND NOT quiet AND state <> 'withdrawn' AND history IS DISTINCT FROM 'withdrawn'

-- list_groups --
-- All groups.
SELECT route, key, labels, due_at, has_flushed, members FROM notify_groups

-- put_groups --
-- Add or replace groups.
INSERT INTO notify_groups (id, route, key, labels, due_at, has_flushed, members)
SELECT id, route, key, labels, due_at, has_flushed, ARRAY(SELECT jsonb_array_elements_text(members)::uuid)
FROM json_to_recordset(%(rows)s::json) AS new (
    id text, route text, key text, labels jsonb, due_at timestamptz, has_flushed boolean, members jsonb)
ON CONFLICT (id) DO UPDATE SET labels = excluded.labels, due_at = excluded.due_at, has_flushed = excluded.has_flushed,
    members = excluded.members

-- delete_groups --
-- Remove groups.
DELETE FROM notify_groups WHERE id = ANY(%(ids)s)

-- list_log --
-- What receivers were told last about each group.
SELECT receiver, key, firing, resolved, at, starts FROM notify_log

-- put_log --
-- Store what receivers were told about groups.
INSERT INTO notify_log (id, receiver, key, firing, resolved, at, starts)
SELECT id, receiver, key, ARRAY(SELECT jsonb_array_elements_text(firing)), ARRAY(SELECT jsonb_array_elements_text(resolved)), at, starts
FROM json_to_recordset(%(rows)s::json) AS new (
    id text, receiver text, key text, firing jsonb, resolved jsonb, at timestamptz, starts jsonb)
ON CONFLICT (id) DO UPDATE SET firing = excluded.firing, resolved = excluded.resolved, at = excluded.at, starts = excluded.starts

-- delete_old_log --
-- Forget groups all of whose alerts have ended, some time after the receiver was told.
DELETE FROM notify_log WHERE cardinality(firing) = 0 AND at < clock_timestamp() - %(min_age)s::interval

-- list_held --
-- Alerts whose first message waits.
SELECT alert_id, reason, since FROM notify_held

-- put_held --
-- Have the first message of an alert wait.
INSERT INTO notify_held (alert_id, reason) VALUES (%(alert_id)s, %(reason)s)
ON CONFLICT (alert_id) DO UPDATE SET reason = excluded.reason

-- delete_held --
-- Have alerts wait no longer.
DELETE FROM notify_held WHERE alert_id = ANY(%(alert_ids)s)

-- get_problems --
-- Why the workspace file is not in force; NULL: it is.
SELECT problems FROM notify_state

-- put_problems --
-- Store that the workspace file was read, and why it is not in force.
UPDATE notify_state SET problems = %(problems)s, loaded_at = clock_timestamp()

-- list_rules --
-- What notifications need of the desired rules.
SELECT rule, definition #>> '{rule,rules,0,where}' IS NOT NULL AS has_condition,
    definition #>> '{rule,rules,0,where_wait}' AS where_wait, definition #>> '{rule,rules,0,history_wait}' AS history_wait,
    (SELECT count(*) FROM jsonb_object_keys(coalesce(definition #> '{rule,rules,0,recall}', '{}')))::integer AS recalls
FROM rules

-- list_unread_streams --
-- The streams that have unread input.
SELECT stream FROM unread_input WHERE oldest_at IS NOT NULL

-- count_answered --
-- The recalls of events that have an answer or have ended.
SELECT eid, count(*)::integer AS answered FROM tasks
WHERE eid = ANY(%(eids)s) AND (revision > 0 OR ended_at IS NOT NULL) GROUP BY eid

-- get_reload_requests --
-- The number of requests to reload files.
SELECT asked FROM rule_files

-- list_answers --
-- The last answers of the recalls of events.
SELECT DISTINCT ON (t.eid, t.recall) t.eid, t.rule, t.recall, t.request->>'kind' AS kind, r.number, r.final, r.coverage, r.answer,
    shown_comparable(t, r.forecast, r.comparable) AS comparable, r.match, shown_forecast(t, r.forecast) AS forecast, coalesce(e.attributes, '{}') AS attributes
FROM tasks t CROSS JOIN LATERAL (SELECT * FROM revisions r WHERE r.task = t.id ORDER BY r.number DESC LIMIT 1) r
LEFT JOIN events e ON e.eid = t.eid AND e.rule = t.rule AND e.version = t.version
WHERE t.eid = ANY(%(eids)s)
ORDER BY t.eid, t.recall, t.created_at DESC

-- list_fixes --
-- The alerts of past events, with the last resolution that was recorded of each.
SELECT DISTINCT ON (a.eid) a.eid, a.id AS alert, a.annotations->>'summary' AS summary, a.starts_at, a.ends_at, n.text AS resolution, n.tag, n.author,
    coalesce('superseded by ' || n.superseded_by, n.effect) AS effect
FROM alerts a LEFT JOIN LATERAL (SELECT text, tag, author, effect, superseded_by FROM alert_notes n WHERE n.alert_id = a.id AND n.kind = 'resolution'
    ORDER BY n.at DESC, n.id DESC LIMIT 1) n ON true
WHERE a.eid = ANY(%(eids)s) ORDER BY a.eid, (n.text IS NULL), a.starts_at DESC
