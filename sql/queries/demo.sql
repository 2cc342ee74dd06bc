-- list_events_of_alerts --
-- The first events of the alerts that fired, with the host of their key.
SELECT e.eid::text, e.rule, e.key->>'host' AS host, e.ts
FROM alerts a JOIN events e USING (rule, version, eid)
WHERE a.fired_at IS NOT NULL AND a.state <> 'withdrawn'

-- find_first_alert --
-- The first alert of a rule on a host in a time range.
SELECT id FROM alerts
WHERE rule = %(rule)s AND key->>'host' = %(host)s AND starts_at >= %(starts)s AND starts_at < %(until)s
ORDER BY starts_at LIMIT 1

-- history_progress --
-- Number of archived files; whether all rules are evaluated and a recall process is running.
SELECT
    (SELECT count(*) FROM units WHERE done),
    (SELECT coalesce(bool_and(settled_to IS NOT NULL), false) FROM deployments)
    AND EXISTS (SELECT FROM processes WHERE role = 'recall' AND state LIKE 'running%%')
