-- count_by_day --
-- Events and alerts of each day in UTC and rule. An event belongs to the alerts of its fingerprint that last at its time.
WITH bounds AS (
    SELECT date_trunc('day', now(), 'UTC') - make_interval(days => %(days)s - 1) AS since
), day_events AS (
    SELECT e.rule, (e.ts AT TIME ZONE 'UTC')::date AS day, count(*) AS events,
        count(*) FILTER (WHERE NOT EXISTS (
            SELECT FROM alerts a WHERE a.rule = e.rule AND a.fingerprint = e.fingerprint
                AND e.ts BETWEEN a.starts_at AND a.last_at AND a.fired_at IS NOT NULL AND a.state <> 'withdrawn'
                AND a.history IS DISTINCT FROM 'withdrawn')) AS without_alert
    FROM (SELECT DISTINCT ON (eid) eid, rule, ts, fingerprint FROM events, bounds
        WHERE ts >= since AND (%(rule)s::text IS NULL OR rule = %(rule)s OR rule LIKE '%%/' || %(rule)s)) e
    GROUP BY 1, 2
), day_alerts AS (
    SELECT rule, (starts_at AT TIME ZONE 'UTC')::date AS day, count(*) AS fired FROM alerts, bounds
    WHERE starts_at >= since AND fired_at IS NOT NULL AND state <> 'withdrawn' AND history IS DISTINCT FROM 'withdrawn'
    GROUP BY 1, 2
)
SELECT e.rule, e.day, e.events, coalesce(a.fired, 0) AS fired, e.without_alert
FROM day_events e LEFT JOIN day_alerts a USING (rule, day) ORDER BY e.day, e.rule

-- list_rule_figures --
-- Alerts that fired, and recalls, of each rule.
WITH rule_alerts AS (
    SELECT rule, count(*) AS alerts, count(*) FILTER (WHERE state = 'firing') AS firing, max(fired_at) AS last_fired_at
    FROM alerts WHERE fired_at IS NOT NULL AND state <> 'withdrawn' AND history IS DISTINCT FROM 'withdrawn' GROUP BY rule
), rule_tasks AS (
    SELECT rule, count(*) AS recalls, sum(seconds) AS recall_seconds FROM tasks GROUP BY rule
)
SELECT rule, coalesce(alerts, 0) AS alerts, coalesce(firing, 0) AS firing, last_fired_at,
    coalesce(recalls, 0) AS recalls, coalesce(recall_seconds, 0) AS recall_seconds
FROM rule_alerts FULL JOIN rule_tasks USING (rule) ORDER BY rule

-- list_judgements --
-- Judgements of past events for an event.
SELECT past_eid, helps, author, at FROM judgements WHERE eid = %(eid)s ORDER BY at DESC
