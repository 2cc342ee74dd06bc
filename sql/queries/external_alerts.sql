-- list_rules --
-- The rules of some names of alerts.
SELECT alertname, rule FROM external_rules WHERE alertname = ANY(%(names)s)

-- list_applied --
-- Those of some names of rules that are applied.
SELECT rule FROM rules WHERE rule = ANY(%(rules)s)

-- count_rules --
-- The number of rules that names of alerts have.
SELECT count(DISTINCT rule) FROM external_rules WHERE rule <> %(other)s

-- count_names --
-- The number of names of alerts.
SELECT count(*) FROM external_rules

-- put_rule --
-- Store the rule of a name of an alert.
INSERT INTO external_rules (alertname, rule) VALUES (%(alertname)s, %(rule)s)
ON CONFLICT (alertname) DO UPDATE SET rule = excluded.rule

-- list_latest --
-- The latest posted alert of each of some fingerprints of a rule.
SELECT DISTINCT ON (a.fingerprint) a.id, a.eid, a.fingerprint, a.starts_at, a.ends_at, a.annotations, x.posted_at, x.ends
FROM alerts a JOIN external_alerts x ON x.alert_id = a.id
WHERE a.rule = %(rule)s AND a.fingerprint = ANY(%(fingerprints)s)
ORDER BY a.fingerprint, a.starts_at DESC

-- list_ended --
-- Some of the posted alerts that fire, and whose last end has passed.
SELECT a.id, a.eid, a.fingerprint, a.starts_at, a.ends_at, a.annotations, x.posted_at, x.ends
FROM alerts a JOIN external_alerts x ON x.alert_id = a.id
WHERE x.open_until <= %(clock)s AND a.ends_at IS NULL
LIMIT %(limit)s

-- put --
-- The newest post of alerts.
INSERT INTO external_alerts (alert_id, fingerprint, posted_at, ends, open_until)
SELECT alert_id, fingerprint, posted_at, ends, open_until FROM json_to_recordset(%(rows)s::json)
    AS new (alert_id uuid, fingerprint text, posted_at timestamptz, ends jsonb, open_until bigint)
ON CONFLICT (alert_id) DO UPDATE SET posted_at = excluded.posted_at, ends = excluded.ends,
    open_until = excluded.open_until

-- close --
-- Alerts have ended.
UPDATE external_alerts SET open_until = NULL WHERE alert_id = ANY(%(alerts)s)

-- update_alert --
-- The annotations and the end of an alert, and whether it fires.
UPDATE alerts SET annotations = %(annotations)s, ends_at = %(ends_at)s, last_at = greatest(starts_at, %(last_at)s),
    state = CASE WHEN %(ends_at)s::timestamptz IS NULL THEN 'firing' ELSE 'resolved' END, end_reason = %(end_reason)s,
    updated_at = clock_timestamp()
WHERE id = %(id)s

-- get_progress --
SELECT read_to FROM external_progress

-- set_progress --
UPDATE external_progress SET read_to = greatest(read_to, %(read_to)s)
