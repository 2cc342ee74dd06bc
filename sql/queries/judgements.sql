-- put --
-- Store a judgement; it replaces an earlier one of the same events by the same person.
INSERT INTO judgements (eid, past_eid, helps, author) VALUES (%(eid)s, %(past_eid)s, %(helps)s, %(author)s)
ON CONFLICT (eid, past_eid, author) DO UPDATE SET helps = excluded.helps, at = clock_timestamp()

-- withdraw --
-- Delete a person's judgement of a past event for an event.
DELETE FROM judgements WHERE eid = %(eid)s AND past_eid = %(past_eid)s AND author = %(author)s

-- list_of_rule --
-- Judgements of past events for events of a rule: one for each pair on which all people agree.
SELECT j.eid::text AS eid, j.past_eid::text AS past_eid, bool_and(j.helps) AS helps FROM judgements j
WHERE EXISTS (SELECT FROM events e WHERE e.eid = j.eid AND e.rule = %(rule)s)
GROUP BY j.eid, j.past_eid HAVING bool_and(j.helps) = bool_or(j.helps)

-- list_rules_of_event --
-- The rules of an event.
SELECT DISTINCT rule FROM events WHERE eid = %(eid)s

-- get_feedback_state --
-- How much feedback there is, and when the last was given.
SELECT (SELECT count(*) FROM alert_notes WHERE tag IS NOT NULL OR effect IS NOT NULL) + (SELECT count(*) FROM tag_names)
        + (SELECT count(*) FROM judgements) AS total,
    greatest((SELECT max(at) FROM alert_notes WHERE tag IS NOT NULL OR effect IS NOT NULL), (SELECT max(at) FROM tag_names),
        (SELECT max(at) FROM judgements)) AS newest

-- list_tagged_corpus --
-- The corpus of a version in (ts, eid) order. `tag`: of the last tagged resolution of the event's alert,
-- which has the ID `alert` and was recorded at `tagged_at`.
SELECT c.eid::text AS eid, (extract(epoch FROM c.ts) * 1000000)::bigint AS ts, c.contexts, e.fingerprint, n.tag,
    n.alert::text AS alert, (extract(epoch FROM n.at) * 1000000)::bigint AS tagged_at
FROM contexts c
JOIN events e ON e.rule = c.rule AND e.version = c.version AND e.eid = c.eid
LEFT JOIN LATERAL (
    SELECT n.tag, n.at, a.id AS alert FROM alerts a JOIN remedies n ON n.alert_id = a.id
    WHERE a.rule = e.rule AND a.fingerprint = e.fingerprint AND e.ts BETWEEN a.starts_at AND a.last_at AND n.tag IS NOT NULL
    ORDER BY n.at DESC, n.id DESC LIMIT 1) n ON true
WHERE c.rule = %(rule)s AND c.version = %(version)s AND c.corpus IS NOT NULL
ORDER BY c.ts, c.eid

-- list_tags --
-- The tags of past events: of the last tagged resolution of each event's alert, or NULL. The alert is
-- chosen as in `events.list_past`.
SELECT e.eid::text, (SELECT n.tag FROM remedies n WHERE n.alert_id = a.id)
FROM events e
LEFT JOIN LATERAL (
    SELECT a.id FROM alerts a WHERE a.rule = e.rule AND a.fingerprint = e.fingerprint
        AND e.ts BETWEEN a.starts_at AND a.last_at ORDER BY a.state = 'withdrawn', a.starts_at DESC LIMIT 1) a ON true
WHERE e.eid = ANY(%(eids)s::uuid[])

-- list_unresolved --
-- The corpus events of a version whose alert has no tagged resolution, in (ts, eid) order. `recalled`: how many last
-- answers have the event as a hit.
WITH hits AS (
    SELECT hit->>'past_eid' AS eid, count(*) AS recalled
    FROM tasks t
    CROSS JOIN LATERAL (SELECT answer FROM revisions r WHERE r.task = t.id ORDER BY number DESC LIMIT 1) r
    CROSS JOIN LATERAL jsonb_array_elements(r.answer) hit
    WHERE t.rule = %(rule)s AND t.request->>'kind' = 'similar' GROUP BY 1)
SELECT c.eid::text AS eid, (extract(epoch FROM c.ts) * 1000000)::bigint AS ts, c.contexts, a.id::text AS alert,
    e.key, coalesce(h.recalled, 0)::integer AS recalled
FROM contexts c
JOIN events e ON e.rule = c.rule AND e.version = c.version AND e.eid = c.eid
JOIN LATERAL (
    SELECT a.id FROM alerts a WHERE a.rule = e.rule AND a.fingerprint = e.fingerprint
        AND e.ts BETWEEN a.starts_at AND a.last_at AND a.state <> 'withdrawn' ORDER BY a.starts_at DESC LIMIT 1) a ON true
LEFT JOIN hits h ON h.eid = c.eid::text
WHERE c.rule = %(rule)s AND c.version = %(version)s AND c.corpus IS NOT NULL
    AND NOT EXISTS (SELECT FROM remedies n WHERE n.alert_id = a.id)
ORDER BY c.ts, c.eid
