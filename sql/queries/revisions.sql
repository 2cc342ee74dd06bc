-- list_last_of_event --
-- The last answer of each recall of an event.
SELECT DISTINCT ON (t.recall) t.id AS task, t.rule, t.version, t.recall, t.state, t.request, t.error, r.number, r.final,
    r.coverage || jsonb_build_object('changed', changed_since_read(t)) AS coverage, r.answer, r.estimates, r.comparable,
    r.at
FROM tasks t LEFT JOIN revisions r ON r.task = t.id WHERE t.eid = %(eid)s
ORDER BY t.recall, t.created_at DESC, r.number DESC NULLS LAST

-- export_last --
-- The last answer of each task, oldest event first.
SELECT t.id, t.eid, t.rule, t.recall, t.state, r.number AS revision, coalesce(r.final, false) AS final,
    r.coverage || jsonb_build_object('changed', changed_since_read(t)) AS coverage, r.answer, r.estimates,
    t.event->'key' AS key, t.error, t.request->>'sql' AS sql
FROM tasks t LEFT JOIN LATERAL (SELECT * FROM revisions r WHERE r.task = t.id ORDER BY number DESC LIMIT 1) r ON true
ORDER BY (t.event->>'ts')::bigint, t.eid, t.recall

-- export_hits --
-- The hits of the last answers of similarity recalls.
SELECT t.eid AS query, (hit->>'rank')::int AS rank, hit->>'past_eid' AS event, (hit->>'score')::float8 AS score
FROM tasks t
CROSS JOIN LATERAL (SELECT answer FROM revisions r WHERE r.task = t.id ORDER BY number DESC LIMIT 1) r
CROSS JOIN LATERAL jsonb_array_elements(r.answer) hit
WHERE t.request->>'kind' = 'similar' AND (%(recall)s::text IS NULL OR t.recall = %(recall)s)
ORDER BY (t.event->>'ts')::bigint, t.eid, t.recall, rank
