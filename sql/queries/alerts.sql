-- put_event --
-- A detected or settled event; settling keeps the row.
INSERT INTO events (eid, rule, version, ts, fingerprint, key, attributes, settled)
VALUES (%(eid)s, %(rule)s, %(version)s, %(ts)s, %(fingerprint)s, %(key)s, %(attributes)s, %(settled)s)
ON CONFLICT (rule, version, eid) DO UPDATE SET
    settled = true, attributes = excluded.attributes, seq = DEFAULT
WHERE excluded.settled AND NOT events.settled

-- drop_unsettled --
-- Detected events before the horizon that settling did not confirm.
DELETE FROM events WHERE rule = %(rule)s AND NOT settled AND ts < %(horizon)s RETURNING fingerprint

-- unsettled --
-- Detected events of some fingerprints that are not settled yet.
SELECT eid, ts, fingerprint, key, attributes FROM events
WHERE rule = %(rule)s AND NOT settled AND fingerprint = ANY(%(fingerprints)s) ORDER BY ts, eid

-- open_alerts --
-- Alerts of a rule whose life goes on: settled and open, or provisional.
SELECT id, eid, fingerprint, key, state, starts_at, fired_at, last_at, ends_at, events, settled
FROM alerts WHERE rule = %(rule)s AND ends_at IS NULL AND state <> 'withdrawn'

-- put_alert --
-- An alert as it stands now.
INSERT INTO alerts (id, eid, rule, version, fingerprint, key, labels, annotations, state, starts_at, fired_at, last_at,
    ends_at, events, settled, raised_at)
VALUES (%(id)s, %(eid)s, %(rule)s, %(version)s, %(fingerprint)s, %(key)s, %(labels)s, %(annotations)s, %(state)s,
    %(starts_at)s, %(fired_at)s, %(last_at)s, %(ends_at)s, %(events)s, %(settled)s,
    CASE WHEN %(fired_at)s::timestamptz IS NOT NULL THEN clock_timestamp() END)
ON CONFLICT (id) DO UPDATE SET eid = excluded.eid, labels = excluded.labels, annotations = excluded.annotations,
    state = excluded.state, starts_at = excluded.starts_at, fired_at = excluded.fired_at, last_at = excluded.last_at,
    ends_at = excluded.ends_at, events = excluded.events, settled = excluded.settled,
    raised_at = coalesce(alerts.raised_at, excluded.raised_at), updated_at = clock_timestamp(),
    verdict = CASE WHEN alerts.eid = excluded.eid THEN alerts.verdict END

-- move_alert --
-- An alert whose first event stays: labels and annotations stay too.
UPDATE alerts SET state = %(state)s, fired_at = %(fired_at)s, last_at = %(last_at)s, ends_at = %(ends_at)s,
    events = %(events)s, settled = %(settled)s, updated_at = clock_timestamp(),
    raised_at = coalesce(raised_at, CASE WHEN %(fired_at)s::timestamptz IS NOT NULL THEN clock_timestamp() END)
WHERE id = %(id)s

-- withdraw --
-- A provisional alert that settling did not confirm.
UPDATE alerts SET state = 'withdrawn', ends_at = last_at, updated_at = clock_timestamp() WHERE id = %(id)s

-- events --
-- Events, newest first.
SELECT eid, rule, version, ts, key, attributes, settled, past, at FROM events
WHERE (%(rule)s::text IS NULL OR rule = %(rule)s OR rule LIKE '%%/' || %(rule)s)
ORDER BY ts DESC, eid LIMIT %(limit)s

-- event --
-- One event, by eid, in all versions of its rule.
SELECT eid, rule, version, ts, key, attributes, settled, past, at FROM events WHERE eid = %(eid)s ORDER BY at DESC

-- export_events --
-- Settled events of the deployed versions, oldest first.
SELECT eid, rule, ts, key, attributes FROM events WHERE settled ORDER BY ts, eid

-- alerts --
-- Alerts, newest first.
SELECT id, eid, rule, version, key, labels, annotations, state, verdict, starts_at, fired_at, last_at, ends_at, events,
    past, created_at, raised_at, updated_at,
    (SELECT n.author FROM alert_notes n WHERE n.alert_id = alerts.id AND n.kind = 'ack' ORDER BY n.at DESC, n.id DESC LIMIT 1)
        AS acknowledged_by
FROM alerts
WHERE (%(rule)s::text IS NULL OR rule = %(rule)s OR rule LIKE '%%/' || %(rule)s)
  AND (%(states)s::text[] IS NULL OR state = ANY(%(states)s))
  AND (%(everything)s OR (NOT past AND state <> 'withdrawn' AND verdict IS DISTINCT FROM 'held back' AND NOT (state = 'pending' AND ends_at IS NOT NULL)))
  AND (%(id)s::text IS NULL OR id::text LIKE %(id)s || '%%' OR eid::text LIKE %(id)s || '%%')
ORDER BY starts_at DESC, id LIMIT %(limit)s

-- export_alerts --
-- All alerts, oldest first.
SELECT id, eid, rule, key, labels, CASE WHEN verdict = 'held back' THEN 'withdrawn' ELSE state END AS state, starts_at,
    ends_at
FROM alerts ORDER BY starts_at, id

-- changed_alerts --
-- Alerts written since a moment, in order of the writing, for those who watch.
SELECT id, eid, rule, version, key, labels, annotations, state, starts_at, fired_at, last_at, ends_at, events,
    created_at, raised_at, updated_at FROM alerts WHERE updated_at > %(since)s AND NOT past ORDER BY updated_at LIMIT %(limit)s

-- notes --
-- What was done about some alerts.
SELECT alert_id, kind, author, text, tag, at FROM alert_notes WHERE alert_id = ANY(%(ids)s) ORDER BY at, id

-- add_note --
-- Somebody did or learned something.
INSERT INTO alert_notes (alert_id, kind, author, text, tag)
VALUES (%(alert)s, %(kind)s, %(author)s, %(text)s, %(tag)s)

-- counts --
-- How many events are settled, and how many alerts stand in each state.
SELECT (SELECT count(*) FROM events WHERE settled) AS settled_events,
       (SELECT count(*) FROM events WHERE NOT settled) AS detected_events,
       (SELECT coalesce(jsonb_object_agg(state, n), '{}') FROM (SELECT state, count(*) AS n FROM alerts WHERE NOT past GROUP BY state) s)
           AS alerts

-- raised --
-- Alerts that began to fire after a moment by the clock.
SELECT id, eid, rule, labels, annotations, starts_at, raised_at FROM alerts
WHERE raised_at > %(since)s ORDER BY raised_at

-- delays --
-- From event time to the row of the alert, in milliseconds, for alerts that fired at their first event.
SELECT count(*) AS alerts,
       percentile_cont(0.5) WITHIN GROUP (ORDER BY extract(epoch FROM raised_at - starts_at) * 1000)::float8 AS p50,
       percentile_cont(0.99) WITHIN GROUP (ORDER BY extract(epoch FROM raised_at - starts_at) * 1000)::float8 AS p99
FROM alerts WHERE starts_at >= %(since)s AND fired_at = starts_at

-- open_since --
-- Rules with something to settle even where nothing new is found; since when, NULL: whenever.
SELECT rule, CASE WHEN bool_or(last IS NULL) THEN NULL ELSE min(last) END FROM (
    SELECT rule, NULL::bigint AS last FROM events WHERE NOT settled AND ts < %(horizon)s
    UNION ALL
    SELECT rule, (settled->>'last')::bigint FROM alerts
    WHERE ends_at IS NULL AND (settled IS NOT NULL OR starts_at < %(horizon)s)
) AS waiting GROUP BY rule
