-- add --
-- Register an event that recalls are about, unless it is registered.
INSERT INTO recalled_events (rule, version, eid, ts, event, plan)
VALUES (%(rule)s, %(version)s, %(eid)s, %(ts)s, %(event)s, %(plan)s)
ON CONFLICT (rule, version, eid) DO NOTHING

-- await_history --
-- Hold the alert of an event to its history, which is not known yet.
WITH awaiting AS (
    UPDATE alerts SET history = 'waiting', history_final = false, updated_at = clock_timestamp()
    WHERE rule = %(rule)s AND eid = %(eid)s AND history IS NULL RETURNING id, eid)
INSERT INTO alert_history (alert_id, eid, history, final, reason)
SELECT id, eid, 'waiting', false, 'the recalls were requested' FROM awaiting

-- list_open --
-- Events without boundary that have stages or a condition: all, or some of them.
SELECT r.rule, r.version, r.eid, r.event, r.plan::text AS plan, r.positions, r.evaluations, r.timed_out, r.evaluated_at
FROM recalled_events r
WHERE r.ended_at IS NULL AND r.has_stages
  AND (%(eids)s::uuid[] IS NULL OR r.eid = ANY(%(eids)s))
ORDER BY r.ts, r.eid

-- list_ending --
-- Events whose recalls have ended and cannot start again: the event is settled or dropped, and so is everything that
-- may still enter the corpus before it, and the alerts that they have read. The first event of fired alerts that has no context yet is looked up once for
-- all events of a rule.
WITH awaiting_corpus AS (
    SELECT DISTINCT rule, version, coalesce((plan->>'every_event')::boolean, false) AS every_event
    FROM recalled_events WHERE ended_at IS NULL AND (plan->>'needs_corpus')::boolean),
first_without_context AS MATERIALIZED (
    SELECT w.rule, w.version, w.every_event, f.ts, f.eid
    FROM awaiting_corpus w CROSS JOIN LATERAL (
        SELECT e.ts, e.eid FROM alerts a JOIN events e
            ON e.rule = a.rule AND e.version = a.version AND e.fingerprint = a.fingerprint
                AND (e.eid = a.eid OR (w.every_event AND e.ts BETWEEN a.starts_at AND a.last_at))
        WHERE a.rule = w.rule AND a.version = w.version AND NOT a.past AND a.fired_at IS NOT NULL
          AND a.state <> 'withdrawn'
          AND NOT EXISTS (SELECT FROM contexts c
            WHERE c.rule = e.rule AND c.version = e.version AND c.eid = e.eid)
        ORDER BY e.ts, e.eid LIMIT 1) f)
SELECT r.rule, r.version, r.eid, r.event, r.plan::text AS plan, r.positions, r.evaluations, r.timed_out, r.evaluated_at
FROM recalled_events r
WHERE r.ended_at IS NULL
  AND NOT EXISTS (SELECT FROM tasks t WHERE t.eid = r.eid AND t.rule = r.rule AND t.version = r.version
      AND t.state IN ('waiting', 'running', 'suspended'))
  AND (r.timed_out OR NOT EXISTS (
          SELECT FROM deployments d WHERE d.rule = r.rule AND d.version = r.version AND d.state <> 'stopped')
    OR (NOT EXISTS (SELECT FROM events e
            WHERE e.rule = r.rule AND e.version = r.version AND e.eid = r.eid AND NOT e.settled)
        AND (EXISTS (SELECT FROM events e WHERE e.rule = r.rule AND e.version = r.version AND e.eid = r.eid)
            OR EXISTS (SELECT FROM deployments d
                WHERE d.rule = r.rule AND d.version = r.version AND d.settled_to > r.ts))
        AND NOT EXISTS (SELECT FROM unsettled_reads u JOIN tasks t ON t.id = u.task
            WHERE t.eid = r.eid AND t.rule = r.rule AND t.version = r.version)
        AND NOT EXISTS (SELECT FROM jsonb_array_elements_text(coalesce(r.plan->'recalls', '[]')) AS recall
            WHERE NOT EXISTS (SELECT FROM tasks t
                WHERE t.eid = r.eid AND t.rule = r.rule AND t.version = r.version AND t.recall = recall)
              AND EXISTS (SELECT FROM events e
                WHERE e.rule = r.rule AND e.version = r.version AND e.eid = r.eid)
              AND EXISTS (SELECT FROM alerts a JOIN events e USING (rule, version, fingerprint)
                WHERE e.rule = r.rule AND e.version = r.version AND e.eid = r.eid AND a.state <> 'withdrawn'
                  AND (a.eid = e.eid OR (coalesce((r.plan->>'every_event')::boolean, false)
                      AND e.ts BETWEEN a.starts_at AND a.last_at))))
        AND (NOT coalesce((r.plan->>'needs_corpus')::boolean, false) OR (
            EXISTS (SELECT FROM deployments d
                WHERE d.rule = r.rule AND d.version = r.version AND d.settled_to > r.ts)
            AND NOT EXISTS (SELECT FROM contexts c
                WHERE c.rule = r.rule AND c.version = r.version AND c.corpus IS NULL AND NOT c.past
                  AND (c.ts, c.eid) <= (r.ts, r.eid))
            AND NOT EXISTS (SELECT FROM alerts a
                WHERE a.rule = r.rule AND a.version = r.version AND NOT a.past AND a.starts_at <= r.ts
                  AND a.state = 'pending' AND a.ends_at IS NULL)
            AND NOT EXISTS (SELECT FROM first_without_context f
                WHERE f.rule = r.rule AND f.version = r.version
                  AND f.every_event = coalesce((r.plan->>'every_event')::boolean, false)
                  AND (f.ts, f.eid) <= (r.ts, r.eid))))))
ORDER BY r.ts, r.eid LIMIT %(limit)s

-- is_dropped --
-- Whether settling has dropped an event of a version that runs.
SELECT NOT EXISTS (SELECT FROM events e WHERE e.rule = %(rule)s AND e.version = %(version)s AND e.eid = %(eid)s)
    AND EXISTS (SELECT FROM deployments d
        WHERE d.rule = %(rule)s AND d.version = %(version)s AND d.state <> 'stopped')

-- record_evaluations --
-- Store over what events were evaluated, unless another process has evaluated them since, or they have ended. IS TRUE
-- keeps the planner from scanning the index of all open events, which looks small before it is analyzed.
UPDATE recalled_events r SET positions = p.positions, evaluations = r.evaluations + 1, evaluated_at = clock_timestamp()
FROM unnest(%(versions)s::text[], %(eids)s::uuid[], %(positions)s::jsonb[], %(expected)s::bigint[])
    AS p (version, eid, positions, expected)
WHERE r.rule = %(rule)s AND r.version = p.version AND r.eid = p.eid AND r.evaluations = p.expected
    AND (r.ended_at IS NULL) IS TRUE
RETURNING r.rule, r.version, r.eid

-- lock_for_end --
-- Lock an event to end it, unless one of its recalls runs, or it was evaluated since.
SELECT ARRAY(SELECT DISTINCT t.recall FROM tasks t
    WHERE t.rule = r.rule AND t.version = r.version AND t.eid = r.eid ORDER BY t.recall)
FROM recalled_events r
WHERE r.rule = %(rule)s AND r.version = %(version)s AND r.eid = %(eid)s AND r.evaluations = %(expected)s
  AND r.ended_at IS NULL
  AND NOT EXISTS (SELECT FROM tasks t WHERE t.rule = r.rule AND t.version = r.version AND t.eid = r.eid
      AND t.state IN ('waiting', 'running', 'suspended'))
FOR UPDATE OF r

-- end --
-- Record that an event has its boundary.
UPDATE recalled_events SET ended_at = clock_timestamp() WHERE rule = %(rule)s AND version = %(version)s AND eid = %(eid)s

-- put_stages --
-- Store the states of stages of events.
INSERT INTO stages (rule, version, eid, name, state, revision, error)
SELECT p.rule, p.version, p.eid, p.name, p.state, p.has_changed::integer, p.error
FROM unnest(%(rule)s::text[], %(version)s::text[], %(eid)s::uuid[], %(name)s::text[], %(state)s::text[], %(error)s::text[],
    %(has_changed)s::boolean[]) AS p (rule, version, eid, name, state, error, has_changed)
ORDER BY p.rule, p.version, p.eid, p.name
ON CONFLICT (rule, version, eid, name) DO UPDATE SET state = excluded.state, error = excluded.error,
    revision = stages.revision + excluded.revision, updated_at = clock_timestamp()
WHERE (stages.state, stages.error) IS DISTINCT FROM (excluded.state, excluded.error) OR excluded.revision > 0

-- list_stage_errors --
-- The stages of an event that have failed.
SELECT name, error FROM stages WHERE rule = %(rule)s AND version = %(version)s AND eid = %(eid)s AND state = 'failed'

-- set_history --
-- Store what the condition of a rule says of the alert of an event, and the change with its reason.
WITH changed AS (
    UPDATE alerts SET history = %(history)s, history_final = %(final)s, updated_at = clock_timestamp()
    WHERE rule = %(rule)s AND version = %(version)s AND eid = %(eid)s AND NOT history_final
      AND (history, history_final) IS DISTINCT FROM (%(history)s, %(final)s)
    RETURNING id, eid)
INSERT INTO alert_history (alert_id, eid, history, final, reason)
SELECT id, eid, %(history)s, %(final)s, %(reason)s FROM changed

-- list_history --
-- The changes of `history` of an alert, oldest first.
SELECT history, final, reason, at FROM alert_history WHERE alert_id = %(alert_id)s ORDER BY id

-- lock_without_progress --
-- Events without progress for some time, none of whose recalls waits for its turn or for feedback; returns their open
-- tasks, NULL where there is none.
SELECT r.rule, r.version, r.eid, t.id AS task
FROM recalled_events r
LEFT JOIN tasks t ON t.rule = r.rule AND t.version = r.version AND t.eid = r.eid AND t.state IN ('running', 'suspended')
WHERE r.ended_at IS NULL AND NOT r.timed_out
  AND greatest(r.created_at, r.evaluated_at) < clock_timestamp() - %(timeout)s::interval
  AND NOT EXISTS (SELECT FROM tasks o WHERE o.rule = r.rule AND o.version = r.version AND o.eid = r.eid
      AND (o.state = 'waiting' OR o.deadline > clock_timestamp()
        OR greatest(o.created_at, o.started_at, o.progressed_at, o.ended_at, o.unasked_since)
            >= clock_timestamp() - %(timeout)s::interval))
ORDER BY t.id NULLS FIRST LIMIT 1000 FOR UPDATE OF r SKIP LOCKED

-- mark_timed_out --
-- End events without progress: their boundary waits for nothing else.
UPDATE recalled_events SET timed_out = true WHERE eid = ANY(%(eids)s) AND ended_at IS NULL

-- count_open --
-- Number of events with stages or a condition that have no boundary yet, of rules that can settle.
SELECT count(*) FROM recalled_events r
WHERE r.ended_at IS NULL AND r.has_stages
  AND NOT EXISTS (SELECT FROM deployments d
    WHERE d.rule = r.rule AND d.version = r.version AND d.state = 'quarantined')
