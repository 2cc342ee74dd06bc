-- add --
-- Note that recalls read alerts, which may not be settled yet.
INSERT INTO unsettled_reads (task) SELECT unnest(%(tasks)s::uuid[]) ON CONFLICT DO NOTHING

-- list_settled --
-- Those about events before a time that wait without having read anything, or have ended: what they read is compared.
SELECT t.id, (t.event->>'ts')::bigint AS ts, t.state, t.seen
FROM unsettled_reads u JOIN tasks t ON t.id = u.task
WHERE (t.event->>'ts')::bigint < %(before)s
  AND (t.state NOT IN ('waiting', 'running', 'suspended') OR (t.state = 'waiting' AND t.seen = '[]' AND t.asked_at IS NULL))
ORDER BY t.id LIMIT %(limit)s

-- has_open --
-- Whether some about events before a time wait or run.
SELECT EXISTS (SELECT FROM unsettled_reads u JOIN tasks t ON t.id = u.task
    WHERE (t.event->>'ts')::bigint < %(before)s AND t.state IN ('waiting', 'running'))

-- remove --
-- Recalls that have read what is settled, or will.
DELETE FROM unsettled_reads WHERE task = ANY(%(tasks)s)
