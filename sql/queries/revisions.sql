-- last_answer --
-- The last answer of a task.
SELECT answer FROM revisions WHERE task = %(task)s ORDER BY number DESC LIMIT 1

-- list_last_of_event --
-- The last answer of each recall of an event. One of a similarity recall says whether the context that it compared is
-- the settled one.
SELECT DISTINCT ON (t.recall) t.id AS task, t.rule, t.version, t.recall, t.state, t.request, t.event, t.error, t.retry_at, r.number, r.final,
    r.coverage || jsonb_build_object('changed', changed_since_read(t)) || CASE WHEN t.request->>'kind' = 'similar'
        THEN jsonb_build_object('context', compared_context(t, r.at)) ELSE '{}' END AS coverage, r.answer, r.estimates,
    shown_comparable(t, r.forecast, r.comparable) AS comparable, r.match, shown_forecast(t, r.forecast) AS forecast, r.at
FROM tasks t LEFT JOIN revisions r ON r.task = t.id WHERE t.eid = %(eid)s
ORDER BY t.recall, t.created_at DESC, r.number DESC NULLS LAST

-- list_last --
-- The recalls of some events with their last answers.
SELECT t.rule, t.version, t.eid, t.recall, t.state, r.number, r.answer, r.coverage, r.estimates
FROM tasks t LEFT JOIN LATERAL (
    SELECT number, answer, coverage, estimates FROM revisions WHERE task = t.id ORDER BY number DESC LIMIT 1) r ON true
WHERE t.eid = ANY(%(eids)s::uuid[])

-- export_last --
-- The last answer of each recall of a rule, oldest event first.
SELECT t.id, t.eid, t.rule, t.recall, t.state, r.number AS revision, coalesce(r.final, false) AS final,
    r.coverage || jsonb_build_object('changed', changed_since_read(t)) || CASE WHEN t.request->>'kind' = 'similar'
        THEN jsonb_build_object('context', compared_context(t, r.at)) ELSE '{}' END AS coverage, r.answer, r.estimates,
    shown_forecast(t, r.forecast) AS forecast, t.event->'key' AS key, t.error, t.request->>'sql' AS sql
FROM tasks t LEFT JOIN LATERAL (SELECT * FROM revisions r WHERE r.task = t.id ORDER BY number DESC LIMIT 1) r ON true
WHERE t.rule <> 'query'
ORDER BY (t.event->>'ts')::bigint, t.eid, t.recall

-- list_after --
-- The answers of a task after a number, oldest first.
SELECT number, final, coverage, answer, estimates FROM revisions
WHERE task = %(task)s AND number > %(after)s ORDER BY number

-- export_hits --
-- The hits of the last answers of similarity recalls.
SELECT t.eid AS query, (hit->>'rank')::int AS rank, hit->>'past_eid' AS event, (hit->>'score')::float8 AS score
FROM tasks t
CROSS JOIN LATERAL (SELECT answer FROM revisions r WHERE r.task = t.id ORDER BY number DESC LIMIT 1) r
CROSS JOIN LATERAL jsonb_array_elements(r.answer) hit
WHERE t.request->>'kind' = 'similar' AND (%(recall)s::text IS NULL OR t.recall = %(recall)s)
ORDER BY (t.event->>'ts')::bigint, t.eid, t.recall, rank
