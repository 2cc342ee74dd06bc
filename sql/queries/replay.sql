-- list_repeatable --
-- The inputs of the last answers of the recalls of an event, or of one recall, by its ID. Answers with live rows
-- are not among them.
SELECT t.id, t.eid, t.rule, t.version, t.recall, t.request, t.event, t.pieces, t.piece_count, t.corpus, t.model, t.seen, t.started_at, r.number,
    r.coverage, r.answer, r.at AS answered_at
FROM tasks t JOIN LATERAL (SELECT * FROM revisions r WHERE r.task = t.id ORDER BY number DESC LIMIT 1) r ON true
WHERE (t.eid = %(id)s OR t.id = %(id)s) AND t.live_appends IS NULL ORDER BY t.recall, t.created_at

-- list_chunks_expired_since --
-- Chunks that have expired and whose rows existed at a time.
SELECT c.id, (extract(epoch FROM c.to_ts) * 1000000)::bigint AS to_ts, c.expired_at
FROM chunks c LEFT JOIN preparations p ON p.chunk = c.id AND p.name = 'forget'
WHERE c.state = 'expired' AND coalesce(p.done_at > %(moment)s, true) ORDER BY c.id

-- context_changed_at --
-- When the context of an event was computed again, if that was after a time.
SELECT at FROM contexts WHERE rule = %(rule)s AND version = %(version)s AND eid = %(eid)s AND at > %(moment)s

-- relation_changed_at --
-- The relation that has got other rows for an event time after a time, and when that was last.
SELECT relation, max(at) AS at FROM relation_versions
WHERE relation = ANY(%(relations)s) AND valid_from <= %(ts)s AND at > %(moment)s GROUP BY relation ORDER BY relation

-- list_erased_since --
-- What was erased after a time: streams, event times in microseconds, number of events.
SELECT streams, coalesce((extract(epoch FROM first_ts) * 1000000)::bigint, 0) AS first_ts,
    coalesce((extract(epoch FROM last_ts) * 1000000)::bigint, 0) AS last_ts,
    coalesce((effects->>'events')::bigint, 0) AS events, started_at
FROM erasures WHERE coalesce(finished_at, clock_timestamp()) > %(moment)s ORDER BY started_at
