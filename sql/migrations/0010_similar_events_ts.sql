-- The view of similar past events has the time of their event.
CREATE OR REPLACE VIEW dashboard.similar_events AS
SELECT t.eid, t.rule, t.recall, (hit->>'rank')::integer AS rank, (hit->>'score')::float8 AS score,
    (hit->>'past_eid')::uuid AS past_eid, to_timestamp((hit->>'past_ts')::float8 / 1000000) AS past_ts,
    (SELECT string_agg(term->>0, ', ' ORDER BY place) FROM jsonb_array_elements(hit->'shared') WITH ORDINALITY AS s (term, place)
        WHERE place <= 5) AS reason,
    a.id AS past_alert, a.resolution, a.tag, to_timestamp((t.event->>'ts')::float8 / 1000000) AS ts
FROM tasks t
CROSS JOIN LATERAL (SELECT r.answer FROM revisions r WHERE r.task = t.id ORDER BY r.number DESC LIMIT 1) r
CROSS JOIN LATERAL jsonb_array_elements(r.answer) hit
LEFT JOIN LATERAL (SELECT p.id, p.resolution, p.tag FROM dashboard.alerts p WHERE p.eid = (hit->>'past_eid')::uuid
    ORDER BY p.starts_at DESC LIMIT 1) a ON true
WHERE t.request->>'kind' = 'similar';
