-- list_events --
-- Settled events after a sequence number.
SELECT seq, eid, rule, version, ts, key, attributes FROM events
WHERE settled AND seq > %(after)s ORDER BY seq LIMIT %(limit)s

-- count_events --
-- The number of settled events after a sequence number, up to a limit, and whether some of them are in
-- closed chunks.
SELECT count(*) AS pending, coalesce(bool_or(ts < %(closed_until)s::timestamptz), false) AS has_closed
FROM (SELECT ts FROM events WHERE settled AND seq > %(after)s ORDER BY seq LIMIT %(limit)s) AS pending_rows

-- list_contexts --
-- Corpus events after a number, with their contexts.
SELECT corpus AS seq, corpus AS number, rule, version, eid, ts, contexts, surroundings
FROM contexts WHERE corpus > %(after)s ORDER BY corpus LIMIT %(limit)s

-- count_contexts --
-- The number of corpus events after a number, up to a limit, and whether some of them are in closed
-- chunks.
SELECT count(*) AS pending, coalesce(bool_or(ts < %(closed_until)s::timestamptz), false) AS has_closed
FROM (SELECT ts FROM contexts WHERE corpus > %(after)s ORDER BY corpus LIMIT %(limit)s) AS pending_rows
