-- list_open --
-- Alerts of a rule that have not ended: settled and open, or provisional.
SELECT id, eid, fingerprint, key, state, starts_at, fired_at, last_at, ends_at, events, settled, end_reason
FROM alerts WHERE rule = %(rule)s AND ends_at IS NULL AND state <> 'withdrawn'

-- put --
-- Alerts with a new first event.
INSERT INTO alerts (id, eid, rule, version, fingerprint, key, labels, annotations, state, starts_at, fired_at, last_at,
    ends_at, events, settled, end_reason, raised_at)
SELECT id, eid, rule, version, fingerprint, key, labels, annotations, state, starts_at, fired_at, last_at, ends_at,
    events, settled, end_reason, CASE WHEN fired_at IS NOT NULL THEN clock_timestamp() END
FROM json_to_recordset(%(rows)s::json) AS new (
    id uuid, eid uuid, rule text, version text, fingerprint text, key jsonb, labels jsonb, annotations jsonb, state text,
    starts_at timestamptz, fired_at timestamptz, last_at timestamptz, ends_at timestamptz, events bigint, settled jsonb, end_reason text)
ON CONFLICT (id) DO UPDATE SET eid = excluded.eid, labels = excluded.labels, annotations = excluded.annotations,
    state = excluded.state, starts_at = excluded.starts_at, fired_at = excluded.fired_at, last_at = excluded.last_at,
    ends_at = excluded.ends_at, events = excluded.events, settled = excluded.settled, end_reason = excluded.end_reason,
    raised_at = coalesce(alerts.raised_at, excluded.raised_at), updated_at = clock_timestamp(),
    history = CASE WHEN alerts.eid = excluded.eid THEN alerts.history END,
    history_final = alerts.history_final AND alerts.eid = excluded.eid

-- update --
-- Alerts whose first event is unchanged: labels and annotations remain.
UPDATE alerts SET state = new.state, fired_at = new.fired_at, last_at = new.last_at, ends_at = new.ends_at,
    events = new.events, settled = new.settled, end_reason = new.end_reason, updated_at = clock_timestamp(),
    raised_at = coalesce(raised_at, CASE WHEN new.fired_at IS NOT NULL THEN clock_timestamp() END)
FROM json_to_recordset(%(rows)s::json) AS new (
    id uuid, state text, fired_at timestamptz, last_at timestamptz, ends_at timestamptz, events bigint, settled jsonb, end_reason text)
WHERE alerts.id = new.id

-- withdraw --
-- Provisional alerts that settling did not confirm.
UPDATE alerts SET state = 'withdrawn', ends_at = last_at, updated_at = clock_timestamp() WHERE id = ANY(%(ids)s)

-- list_newest --
-- Alerts, newest first. `cursor_ts`, `cursor_id`: the last alert of the previous page. `text` is searched in the rule,
-- key, labels, annotations and notes.
SELECT id, eid, rule, version, key, labels, annotations, state, history, history_final, starts_at, fired_at, last_at, ends_at, events, end_reason,
    past, created_at, raised_at, updated_at,
    (SELECT n.author FROM alert_notes n WHERE n.alert_id = alerts.id AND n.kind = 'ack' ORDER BY n.at DESC, n.id DESC LIMIT 1)
        AS acknowledged_by,
    (SELECT n.assignee FROM alert_notes n WHERE n.alert_id = alerts.id AND n.kind = 'assign' ORDER BY n.at DESC, n.id DESC LIMIT 1)
        AS assigned_to,
    (SELECT n.text FROM alert_notes n WHERE n.alert_id = alerts.id AND n.kind = 'resolution' ORDER BY n.at DESC, n.id DESC LIMIT 1)
        AS resolution,
    (SELECT n.tag FROM alert_notes n WHERE n.alert_id = alerts.id AND n.kind = 'resolution' ORDER BY n.at DESC, n.id DESC LIMIT 1)
        AS tag,
    (SELECT coalesce('superseded by ' || n.superseded_by, n.effect) FROM alert_notes n WHERE n.alert_id = alerts.id AND n.kind = 'resolution'
        ORDER BY n.at DESC, n.id DESC LIMIT 1) AS effect
FROM alerts
WHERE (%(rule)s::text IS NULL OR rule = %(rule)s OR rule LIKE '%%/' || %(rule)s)
  AND (%(states)s::text[] IS NULL OR state = ANY(%(states)s))
  AND (NOT %(active)s OR (state IN ('firing', 'provisional') AND fired_at IS NOT NULL AND ends_at IS NULL))
  AND (%(include_all)s OR (NOT past AND state <> 'withdrawn' AND history IS DISTINCT FROM 'withdrawn' AND NOT (state = 'pending' AND ends_at IS NOT NULL)))
  AND (%(id_prefix)s::text IS NULL OR id::text LIKE %(id_prefix)s || '%%' OR eid::text LIKE %(id_prefix)s || '%%')
  AND (%(labels)s::jsonb IS NULL OR labels @> %(labels)s)
  AND (%(since)s::timestamptz IS NULL OR coalesce(ends_at, last_at) >= %(since)s OR ends_at IS NULL)
  AND (%(until)s::timestamptz IS NULL OR starts_at < %(until)s)
  AND (%(text)s::text IS NULL
    OR strpos(lower(concat_ws(' ', rule, key, labels, annotations)), lower(%(text)s)) > 0
    OR EXISTS (SELECT FROM alert_notes n WHERE n.alert_id = alerts.id
        AND strpos(lower(concat_ws(' ', n.author, n.text, n.tag, n.recorded_tag, n.superseded_by, n.link, n.assignee)), lower(%(text)s)) > 0))
  AND (%(cursor_ts)s::timestamptz IS NULL OR starts_at < %(cursor_ts)s
    OR (starts_at = %(cursor_ts)s AND id > %(cursor_id)s::uuid))
ORDER BY starts_at DESC, id LIMIT %(limit)s

-- export --
-- All alerts, oldest first.
SELECT id, eid, rule, key, labels, CASE WHEN history = 'withdrawn' THEN 'withdrawn' ELSE state END AS state, history,
    history_final, starts_at, ends_at
FROM alerts ORDER BY starts_at, id

-- count_by_state --
-- Number of settled and of detected events, and of alerts by state.
SELECT (SELECT count(*) FROM events WHERE settled) AS settled_events,
       (SELECT count(*) FROM events WHERE NOT settled) AS detected_events,
       (SELECT coalesce(jsonb_object_agg(state, alert_count), '{}')
           FROM (SELECT state, count(*) AS alert_count FROM alerts WHERE NOT past GROUP BY state) states)
           AS alerts

-- count_alerts --
-- Number of alerts by state, without those of history.
SELECT state, count(*) FROM alerts WHERE NOT past GROUP BY state ORDER BY state

-- count_active --
-- Number of alerts that fire now, also provisional ones.
SELECT count(*) FROM alerts
WHERE state IN ('firing', 'provisional') AND fired_at IS NOT NULL AND ends_at IS NULL AND NOT past
  AND history IS DISTINCT FROM 'withdrawn'

-- list_raised --
-- Alerts that fired first after a time of the clock, in this order.
SELECT id, eid, rule, labels, annotations, starts_at, raised_at FROM alerts
WHERE raised_at > %(since)s ORDER BY raised_at

-- delays --
-- From event time to the row of the alert, in milliseconds, for alerts that fired at their first event.
SELECT count(*) AS alerts,
       percentile_cont(0.5) WITHIN GROUP (ORDER BY extract(epoch FROM raised_at - starts_at) * 1000)::float8 AS p50,
       percentile_cont(0.99) WITHIN GROUP (ORDER BY extract(epoch FROM raised_at - starts_at) * 1000)::float8 AS p99
FROM alerts WHERE starts_at >= %(since)s AND fired_at = starts_at

-- list_unsettled_rules --
-- Rules that settling may change without a new event, with the last settled event of their alerts.
SELECT rule, CASE WHEN bool_or(last IS NULL) THEN NULL ELSE min(last) END FROM (
    SELECT rule, NULL::bigint AS last FROM events WHERE NOT settled AND ts < %(horizon)s
    UNION ALL
    SELECT rule, (settled->>'last')::bigint FROM alerts
    WHERE ends_at IS NULL AND (settled IS NOT NULL OR starts_at < %(horizon)s)
) AS unsettled GROUP BY rule

-- last_change --
-- The time of the last change of any alert of some rules.
SELECT max(updated_at) FROM alerts WHERE rule = ANY(%(rules)s)

-- time_before --
-- The present time by the clock that `updated_at` is of, less some seconds.
SELECT clock_timestamp() - make_interval(secs => %(seconds)s)

-- list_changes_of_state --
-- When alerts became pending, fired and were resolved, in spans of event time, oldest first. Not of withdrawn ones: what
-- settling has dropped, and whatever `where` says, is no part of their lifecycle. `rules`: only of these.
SELECT c.ts, a.id, a.eid, a.rule, c.state, a.labels, a.key, a.starts_at
FROM alerts a
CROSS JOIN LATERAL (
    SELECT a.starts_at AS ts, 'pending' AS state WHERE a.fired_at IS DISTINCT FROM a.starts_at
    UNION ALL SELECT a.fired_at, 'firing' WHERE a.fired_at IS NOT NULL
    UNION ALL SELECT a.ends_at, 'resolved' WHERE a.fired_at IS NOT NULL AND a.ends_at IS NOT NULL) c
WHERE a.state <> 'withdrawn'
  AND (%(rules)s::text[] IS NULL OR a.rule = ANY(%(rules)s))
  AND (%(end)s::timestamptz IS NULL OR a.starts_at < %(end)s)
  AND (%(start)s::timestamptz IS NULL OR a.ends_at IS NULL OR a.ends_at >= %(start)s)
  AND (%(end)s::timestamptz IS NULL OR c.ts < %(end)s)
  AND (%(start)s::timestamptz IS NULL OR c.ts >= %(start)s)
ORDER BY c.ts, a.rule, a.id, c.state
