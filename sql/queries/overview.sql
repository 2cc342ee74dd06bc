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

-- list_judgements --
-- Judgements of past events for an event.
SELECT past_eid, helps, author, at FROM judgements WHERE eid = %(eid)s ORDER BY at DESC

-- report_rules --
-- What became of the alerts of each rule and week (from Monday, UTC) in which they were raised. One of the same key that
-- fires within an hour after the last one ended is flapping.
WITH bounds AS (
    SELECT date_trunc('week', now(), 'UTC') - make_interval(weeks => %(weeks)s - 1) AS since
), raised AS (
    SELECT a.id, a.rule, (date_trunc('week', raised_at, 'UTC') AT TIME ZONE 'UTC')::date AS week, a.raised_at,
        a.state = 'withdrawn' OR a.history IS NOT DISTINCT FROM 'withdrawn' AS is_withdrawn,
        EXISTS (SELECT FROM alerts b WHERE b.rule = a.rule AND b.fingerprint = a.fingerprint AND b.id <> a.id
            AND b.fired_at IS NOT NULL AND b.ends_at BETWEEN a.starts_at - interval '1 hour' AND a.starts_at) AS is_flapping,
        EXISTS (SELECT FROM notification_alerts t JOIN notifications n ON n.id = t.notification
            WHERE t.alert_id = a.id AND t.status = 'firing' AND n.state = 'delivered') AS is_told
    FROM alerts a, bounds
    WHERE a.raised_at >= since AND a.fired_at IS NOT NULL AND NOT a.past
        AND (%(rule)s::text IS NULL OR a.rule = %(rule)s OR a.rule LIKE '%%/' || %(rule)s)
), noted AS (
    SELECT raised.*, n.acknowledged_at, coalesce(n.is_tagged, false) AS is_tagged
    FROM raised LEFT JOIN (
        SELECT alert_id, min(at) FILTER (WHERE kind = 'ack') AS acknowledged_at,
            bool_or(kind = 'resolution' AND tag IS NOT NULL AND effect IS DISTINCT FROM 'no action needed') AS is_tagged
        FROM alert_notes GROUP BY alert_id
    ) n ON n.alert_id = raised.id
), weeks AS (
    SELECT rule, week, count(*) AS alerts, count(*) FILTER (WHERE is_told) AS told,
        count(acknowledged_at) AS acknowledged, count(*) FILTER (WHERE is_tagged) AS tagged,
        count(*) FILTER (WHERE is_withdrawn) AS withdrawn, count(*) FILTER (WHERE is_flapping) AS flapping,
        count(*) FILTER (WHERE is_told AND acknowledged_at IS NULL AND NOT is_tagged) AS for_nothing,
        percentile_cont(0.5) WITHIN GROUP (ORDER BY extract(epoch FROM acknowledged_at - raised_at) / 60)
            AS minutes_to_acknowledge
    FROM noted GROUP BY rule, week
), costs AS (
    SELECT rule, (date_trunc('week', created_at, 'UTC') AT TIME ZONE 'UTC')::date AS week, sum(seconds) AS recall_seconds
    FROM tasks, bounds
    WHERE created_at >= since AND rule LIKE '%%/%%' -- no ad-hoc queries
        AND (%(rule)s::text IS NULL OR rule = %(rule)s OR rule LIKE '%%/' || %(rule)s)
    GROUP BY 1, 2
)
SELECT rule, week, coalesce(alerts, 0) AS alerts, coalesce(told, 0) AS told, coalesce(acknowledged, 0) AS acknowledged,
    coalesce(tagged, 0) AS tagged, coalesce(withdrawn, 0) AS withdrawn, coalesce(flapping, 0) AS flapping,
    coalesce(for_nothing, 0) AS for_nothing, minutes_to_acknowledge, coalesce(recall_seconds, 0) AS recall_seconds
FROM weeks FULL JOIN costs USING (rule, week) ORDER BY week DESC, for_nothing DESC, alerts DESC, rule
