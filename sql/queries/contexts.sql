-- list_missing --
-- Events without a context that recalls are about: the first of each alert that has fired, or every
-- event of it; `unfired`: or of any alert. In (ts, eid) order.
SELECT DISTINCT ON (e.ts, e.eid) e.eid, (extract(epoch FROM e.ts) * 1000000)::bigint AS ts, e.key, e.attributes,
    e.settled
FROM alerts a
JOIN events e ON e.rule = a.rule AND e.version = a.version
    AND (e.eid = a.eid
        OR (%(every_event)s AND e.fingerprint = a.fingerprint AND e.ts BETWEEN a.starts_at AND a.last_at))
LEFT JOIN contexts c ON c.rule = e.rule AND c.version = e.version AND c.eid = e.eid
WHERE a.rule = %(rule)s AND a.version = %(version)s AND (%(unfired)s OR a.fired_at IS NOT NULL)
  AND a.state <> 'withdrawn' AND NOT a.past
  AND (%(since)s::timestamptz IS NULL OR a.updated_at >= %(since)s) AND c.eid IS NULL
ORDER BY e.ts, e.eid LIMIT %(limit)s

-- list_unsettled --
-- Settled events of a version before an event time whose context is not settled, in (ts, eid) order. The `recalls`
-- that contexts read must have ended.
SELECT c.eid, (extract(epoch FROM c.ts) * 1000000)::bigint AS ts, e.key, e.attributes, c.contexts,
    c.surroundings
FROM contexts c JOIN events e ON e.rule = c.rule AND e.version = c.version AND e.eid = c.eid AND e.settled
WHERE c.rule = %(rule)s AND c.version = %(version)s AND NOT c.settled AND c.corpus IS NULL AND c.ts < %(before)s
  AND cardinality(%(recalls)s::text[]) = (
    SELECT count(*) FROM tasks t WHERE t.eid = c.eid AND t.rule = c.rule AND t.version = c.version
      AND t.recall = ANY(%(recalls)s::text[]) AND t.state NOT IN ('waiting', 'running', 'suspended'))
ORDER BY c.ts, c.eid LIMIT %(limit)s

-- has_open_recalls --
-- Whether contexts of a version wait for recalls that they read.
SELECT EXISTS (SELECT FROM contexts c
    JOIN tasks t ON t.eid = c.eid AND t.rule = c.rule AND t.version = c.version AND t.recall = ANY(%(recalls)s::text[])
    WHERE c.rule = %(rule)s AND c.version = %(version)s AND NOT c.settled AND t.state IN ('waiting', 'running'))

-- list_unrequested --
-- Events without tasks of a recall, in (ts, eid) order. If the recall needs a context, only events
-- that have one; for events in the background, and if `needs_settled`, it must be settled. `previous`:
-- the last event of the alert before that of the event, of the same key, if `needs_previous`. `alerts`: the spans
-- of the alerts of that key that had fired by the event, as they were known at its time, if `needs_alerts`: start,
-- end, whether it was resolved as needing no action, and, if `needs_incidents`, start and end of its incident then, once
-- all alerts of that which had fired were resolved. `undecided`: `where` may still
-- withdraw one of those before the event's own.
SELECT DISTINCT ON (e.ts, e.eid) e.eid, (extract(epoch FROM e.ts) * 1000000)::bigint AS ts, e.key, e.attributes,
    e.ts < %(background_before)s AS background,
    CASE WHEN %(needs_previous)s THEN (SELECT (extract(epoch FROM max(p.last_at)) * 1000000)::bigint FROM alerts p
        WHERE p.rule = a.rule AND p.fingerprint = a.fingerprint AND p.fired_at IS NOT NULL AND p.state <> 'withdrawn'
        AND p.last_at < a.starts_at) END AS previous,
    CASE WHEN %(needs_alerts)s THEN (
        SELECT jsonb_agg(jsonb_build_array(
                (extract(epoch FROM p.starts_at) * 1000000)::bigint,
                CASE WHEN p.ends_at <= e.ts THEN (extract(epoch FROM p.ends_at) * 1000000)::bigint END,
                coalesce(r.effect = 'no action needed', false),
                i.span
            ) ORDER BY p.starts_at, p.id)
        FROM alerts p
        LEFT JOIN LATERAL (
            SELECT n.alert_id, n.effect FROM alert_notes n
            WHERE n.alert_id = p.id AND n.kind = 'resolution' AND n.at <= e.ts ORDER BY n.at DESC, n.id DESC LIMIT 1
        ) r ON true
        LEFT JOIN LATERAL (
            SELECT jsonb_build_array(
                (extract(epoch FROM min(q.starts_at)) * 1000000)::bigint,
                CASE WHEN bool_and(coalesce(q.ends_at <= e.ts, false))
                    THEN (extract(epoch FROM max(q.ends_at)) * 1000000)::bigint END) AS span
            FROM (SELECT incident_at(p.id, e.ts) AS id) m
            CROSS JOIN LATERAL (SELECT o.alert_id FROM incident_alerts o WHERE o.incident = m.id
                UNION SELECT o.alert_id FROM incident_moves o WHERE o.incident = m.id) o
            JOIN alerts q ON q.id = o.alert_id AND incident_at(q.id, e.ts) = m.id
            WHERE q.fired_at <= e.ts AND q.state <> 'withdrawn' AND NOT q.past
              AND q.history IS DISTINCT FROM 'withdrawn'
            HAVING bool_and(EXISTS (SELECT FROM alert_notes n
                WHERE n.alert_id = q.id AND n.kind = 'resolution' AND n.at <= e.ts))
        ) i ON %(needs_incidents)s AND r.alert_id IS NOT NULL
        WHERE p.rule = a.rule AND p.fingerprint = a.fingerprint AND p.fired_at <= e.ts AND p.starts_at < e.ts
          AND p.state <> 'withdrawn' AND NOT p.past AND p.history IS DISTINCT FROM 'withdrawn') END AS alerts,
    %(needs_alerts)s AND EXISTS (
        SELECT FROM alerts p WHERE p.rule = a.rule AND p.fingerprint = a.fingerprint AND p.fired_at <= e.ts
          AND p.starts_at < a.starts_at AND p.state <> 'withdrawn' AND NOT p.past AND p.history IS NOT NULL
          AND NOT p.history_final) AS undecided
FROM alerts a
JOIN events e ON e.rule = a.rule AND e.version = a.version
    AND (e.eid = a.eid
        OR (%(every_event)s AND e.fingerprint = a.fingerprint AND e.ts BETWEEN a.starts_at AND a.last_at))
LEFT JOIN tasks t ON t.eid = e.eid AND t.rule = e.rule AND t.version = e.version AND t.recall = %(recall)s
LEFT JOIN contexts c ON c.rule = e.rule AND c.version = e.version AND c.eid = e.eid
WHERE a.rule = %(rule)s AND a.version = %(version)s AND a.fired_at IS NOT NULL AND a.state <> 'withdrawn' AND NOT a.past
  AND (%(since)s::timestamptz IS NULL OR a.updated_at >= %(since)s) AND t.id IS NULL
  AND (c.eid IS NOT NULL OR NOT %(needs_context)s)
  AND NOT (%(needs_context)s AND (e.ts < %(background_before)s OR %(needs_settled)s) AND NOT coalesce(c.settled, false))
ORDER BY e.ts, e.eid LIMIT %(limit)s

-- put --
-- Store the context of an event, unless a settled one is stored.
INSERT INTO contexts (rule, version, eid, ts, contexts, surroundings, cut, settled)
VALUES (%(rule)s, %(version)s, %(eid)s, %(ts)s, %(contexts)s, %(surroundings)s, %(cut)s, %(settled)s)
ON CONFLICT (rule, version, eid) DO UPDATE SET contexts = excluded.contexts, surroundings = excluded.surroundings,
    cut = excluded.cut, settled = excluded.settled,
    at = CASE WHEN (contexts.contexts, contexts.surroundings)
            IS DISTINCT FROM (excluded.contexts, excluded.surroundings)
        THEN clock_timestamp() ELSE contexts.at END
WHERE NOT contexts.settled

-- touch_alerts --
-- Mark the alerts of events as changed.
UPDATE alerts a SET updated_at = clock_timestamp()
FROM events e
WHERE e.rule = %(rule)s AND e.version = %(version)s AND e.eid = ANY(%(eids)s) AND a.rule = e.rule
  AND a.version = e.version AND a.fingerprint = e.fingerprint AND e.ts BETWEEN a.starts_at AND a.last_at

-- delete_unneeded --
-- Delete contexts of events that settling did not confirm, or not as the first of an alert.
DELETE FROM contexts c WHERE c.corpus IS NULL AND NOT c.past AND (
    NOT EXISTS (SELECT FROM events e WHERE e.rule = c.rule AND e.version = c.version AND e.eid = c.eid)
    OR (NOT c.rule = ANY(%(rules_of_every_event)s) AND NOT EXISTS (
        SELECT FROM alerts a WHERE a.rule = c.rule AND a.eid = c.eid AND a.state <> 'withdrawn')))

-- list_of_events --
-- The contexts of events, for each version of their rule, in no order.
SELECT c.rule, c.version, c.eid, c.ts, c.contexts, c.surroundings, c.settled FROM contexts c WHERE c.eid = ANY(%(eids)s)

-- get_row_counts --
-- The number of rows of each truncated context or surrounding of an event before truncation.
SELECT cut FROM contexts WHERE rule = %(rule)s AND version = %(version)s AND eid = %(eid)s AND cut IS NOT NULL

-- count_truncated --
-- The number of events of each rule with a truncated context or surrounding.
SELECT rule, count(*) FROM contexts WHERE cut IS NOT NULL GROUP BY rule ORDER BY rule

-- list_settled_ids --
-- Events among some that have a settled context.
SELECT eid FROM contexts WHERE rule = %(rule)s AND version = %(version)s AND eid = ANY(%(eids)s) AND settled

-- export --
-- Settled contexts, oldest first.
SELECT eid, rule, ts, contexts, surroundings FROM contexts WHERE settled ORDER BY ts, eid
