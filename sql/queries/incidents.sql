-- list_unplaced --
-- Alerts that are in no incident, oldest first, each once its context is stored, or without it some time after it fired.
SELECT a.id, a.eid, a.rule, a.version, a.fingerprint, a.key, a.starts_at, a.past OR a.state = 'withdrawn' AS withdrawn
FROM unplaced_alerts u JOIN alerts a ON a.id = u.alert_id
WHERE a.raised_at < clock_timestamp() - %(wait)s::interval OR a.raised_at IS NULL
    OR EXISTS (SELECT FROM contexts c WHERE c.rule = a.rule AND c.version = a.version AND c.eid = a.eid)
ORDER BY a.starts_at, a.id LIMIT %(limit)s

-- list_placed --
-- The alerts that began since a time, and the last ones, which are in incidents, in the order in which they were placed.
SELECT a.id, a.eid, a.rule, a.version, a.fingerprint, a.key, a.starts_at, m.incident, m.series, m.changes
FROM incident_alerts m JOIN alerts a ON a.id = m.alert_id
WHERE a.starts_at >= %(since)s OR m.number > (SELECT max(number) FROM incident_alerts) - %(last)s ORDER BY m.number

-- newest_start --
-- When the newest alert that is in an incident began.
SELECT max(a.starts_at) FROM incident_alerts m JOIN alerts a ON a.id = m.alert_id

-- list_contexts --
-- The contexts of events of versions of rules.
SELECT c.rule, c.version, c.eid, c.contexts FROM contexts c
JOIN json_to_recordset(%(rows)s::json) AS wanted (rule text, version text, eid uuid)
    ON c.rule = wanted.rule AND c.version = wanted.version AND c.eid = wanted.eid

-- lock_decisions --
-- Let alerts be placed and people decide one after the other.
LOCK TABLE incident_decisions IN SHARE ROW EXCLUSIVE MODE

-- last_decision --
-- The number of the newest decision; 0 without one.
SELECT coalesce(max(id), 0) FROM incident_decisions

-- list_decisions --
-- Decisions about alerts of two series.
SELECT id, incident, kind, other, author, comment, series, others, at FROM incident_decisions
WHERE kind IN ('split', 'merge') ORDER BY id

-- list_decisions_of --
-- The decisions about an incident, oldest first.
SELECT id, incident, kind, other, author, comment, series, others, at FROM incident_decisions
WHERE incident = %(incident)s OR other = %(incident)s ORDER BY id

-- put_incidents --
-- Add incidents that are new.
INSERT INTO incidents (id) SELECT id FROM json_to_recordset(%(rows)s::json) AS new (id uuid) ON CONFLICT DO NOTHING

-- place --
-- Place alerts.
INSERT INTO incident_alerts (alert_id, incident, series, overlap, reason, changes)
SELECT alert_id, incident, series, overlap, reason, ARRAY(SELECT jsonb_array_elements_text(changes))
FROM json_to_recordset(%(rows)s::json) AS new (
    alert_id uuid, incident uuid, series text, overlap double precision, reason text, changes jsonb)
ON CONFLICT (alert_id) DO NOTHING

-- dequeue --
-- Alerts that are placed, or need not be.
DELETE FROM unplaced_alerts WHERE alert_id = ANY(%(alerts)s)

-- list_newest --
-- Incidents, newest first. `cursor_start`, `cursor_id`: the last one of the previous page.
SELECT id, state, starts_at, ends_at, alerts, firing, resolved, resolved_at, rules FROM incident_spans
WHERE (alerts > 1 OR state = 'confirmed') AND (NOT %(active)s OR firing > 0)
    AND (NOT %(unresolved)s OR resolved < alerts)
    AND (%(alert)s::uuid IS NULL OR id = (SELECT m.incident FROM incident_alerts m WHERE m.alert_id = %(alert)s::uuid))
    AND (%(state)s::text IS NULL OR state = %(state)s)
    AND (%(since)s::timestamptz IS NULL OR ends_at IS NULL OR ends_at >= %(since)s)
    AND (%(until)s::timestamptz IS NULL OR starts_at < %(until)s)
    AND (%(cursor_start)s::timestamptz IS NULL OR (starts_at, id) < (%(cursor_start)s, %(cursor_id)s::uuid))
ORDER BY starts_at DESC, id DESC LIMIT %(limit)s

-- get --
-- An incident with alerts.
SELECT id, state, starts_at, ends_at, alerts, firing, resolved, resolved_at, rules FROM incident_spans WHERE id = %(incident)s

-- find --
-- Incidents by how their ID, or that of one of their alerts, begins; of merged ones, those that have their alerts now.
WITH RECURSIVE matching AS (
    SELECT id FROM incidents WHERE id::text LIKE %(prefix)s || '%%'
    UNION SELECT m.incident FROM incident_alerts m WHERE m.alert_id::text LIKE %(prefix)s || '%%'
), followed AS (
    SELECT i.id, i.merged_into FROM matching f JOIN incidents i ON i.id = f.id
    UNION SELECT i.id, i.merged_into FROM followed f JOIN incidents i ON i.id = f.merged_into
)
SELECT id FROM followed WHERE merged_into IS NULL ORDER BY id LIMIT %(limit)s

-- list_members --
-- The alerts of incidents, oldest first, with why they are there.
SELECT m.incident, m.alert_id, m.series, m.overlap, m.reason, m.placed_at, a.eid, a.rule, a.version, a.key, a.labels, a.annotations,
    CASE WHEN a.history = 'withdrawn' THEN 'withdrawn' ELSE a.state END AS state, a.starts_at, a.ends_at
FROM incident_alerts m JOIN alerts a ON a.id = m.alert_id
WHERE m.incident = ANY(%(incidents)s) ORDER BY a.starts_at, a.id

-- move --
-- Put alerts into another incident.
UPDATE incident_alerts SET incident = %(incident)s, reason = %(reason)s WHERE alert_id = ANY(%(alerts)s)

-- move_all --
-- Put all alerts of an incident into another one.
UPDATE incident_alerts SET incident = %(incident)s, reason = %(reason)s WHERE incident = %(merged)s

-- confirm --
-- A person says that an incident is one.
UPDATE incidents SET state = 'confirmed' WHERE id = %(incident)s

-- end_merged --
-- The alerts of an incident are in another one.
UPDATE incidents SET state = 'merged', merged_into = %(incident)s WHERE id = %(merged)s

-- insert_decision --
-- What a person has decided.
INSERT INTO incident_decisions (incident, kind, other, author, comment, series, others)
VALUES (%(incident)s, %(kind)s, %(other)s, %(author)s, %(comment)s, %(series)s, %(others)s)
