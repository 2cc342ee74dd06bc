-- past --
-- Past events as people know them: their alert, how it went, and what was done.
SELECT e.eid, e.rule, e.ts, e.attributes, e.key, a.id AS alert, a.state, a.annotations, a.starts_at, a.ends_at, a.last_at,
    c.contexts,
    (SELECT count(*) FROM alerts again WHERE again.rule = e.rule AND again.fingerprint = e.fingerprint
        AND again.starts_at > a.starts_at AND again.starts_at < a.starts_at + interval '7 days'
        AND again.state <> 'withdrawn') AS again,
    coalesce((SELECT jsonb_agg(jsonb_build_object('kind', n.kind, 'author', n.author, 'text', n.text, 'tag', n.tag,
        'at', n.at) ORDER BY n.at, n.id) FROM alert_notes n WHERE n.alert_id = a.id), '[]') AS notes
FROM events e
LEFT JOIN LATERAL (
    SELECT * FROM alerts a WHERE a.rule = e.rule AND a.fingerprint = e.fingerprint
        AND e.ts BETWEEN a.starts_at AND a.last_at ORDER BY a.state = 'withdrawn', a.starts_at DESC LIMIT 1) a ON true
LEFT JOIN contexts c ON c.rule = e.rule AND c.version = e.version AND c.eid = e.eid
WHERE e.eid = ANY(%(eids)s)
