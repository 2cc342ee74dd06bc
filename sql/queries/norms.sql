-- list_last --
-- Of the newest alert of each rule and key that fired since a time, or fires now: its recalls with their last answers;
-- `recall` NULL: the numbers of its last event. Newest alerts first.
WITH newest AS (
    SELECT DISTINCT ON (rule, fingerprint) id, eid, rule, fingerprint, key, starts_at, last_at, state
    FROM alerts
    WHERE fired_at IS NOT NULL AND state <> 'withdrawn' AND history IS DISTINCT FROM 'withdrawn'
        AND (coalesce(raised_at, created_at) >= %(since)s OR state IN ('firing', 'provisional'))
        AND (%(rule)s::text IS NULL OR rule = %(rule)s OR split_part(rule, '/', 2) = %(rule)s)
    ORDER BY rule, fingerprint, starts_at DESC, id),
alert AS (SELECT * FROM newest ORDER BY starts_at DESC, id LIMIT %(limit)s)
SELECT a.rule, a.key, a.state, t.recall, t.request->>'kind' AS kind, r.answer, r.coverage, r.comparable, a.starts_at
FROM alert a
JOIN LATERAL (
    SELECT DISTINCT ON (t.recall) t.id, t.recall, t.request FROM tasks t WHERE t.eid = a.eid AND t.rule = a.rule
    ORDER BY t.recall, t.created_at DESC) t ON true
JOIN LATERAL (SELECT answer, coverage, comparable FROM revisions WHERE task = t.id ORDER BY number DESC LIMIT 1) r ON true
UNION ALL
SELECT a.rule, a.key, a.state, NULL, 'event', jsonb_build_array(e.attributes), NULL, NULL, a.starts_at
FROM alert a
JOIN LATERAL (
    SELECT attributes FROM events e WHERE e.rule = a.rule AND e.fingerprint = a.fingerprint
        AND e.ts BETWEEN a.starts_at AND a.last_at ORDER BY e.ts DESC LIMIT 1) e ON true
ORDER BY starts_at DESC, rule, recall NULLS FIRST
