-- events_after --
-- Settled events by sequence number, for the archive.
SELECT seq, eid, rule, version, ts, key, attributes FROM events
WHERE settled AND seq > %(seq)s ORDER BY seq LIMIT %(limit)s

-- events_waiting --
-- How many of these there are, up to a limit, and whether some lie before the end of the newest closed chunk.
SELECT count(*), coalesce(bool_or(ts < %(closed)s::timestamptz), false)
FROM (SELECT ts FROM events WHERE settled AND seq > %(seq)s ORDER BY seq LIMIT %(limit)s) AS waiting

-- contexts_after --
-- The corpus by number, for the archive.
SELECT corpus AS seq, corpus AS number, rule, version, eid, ts, contexts, surroundings
FROM contexts WHERE corpus > %(seq)s ORDER BY corpus LIMIT %(limit)s

-- contexts_waiting --
-- How many of these there are, up to a limit, and whether some lie before the end of the newest closed chunk.
SELECT count(*), coalesce(bool_or(ts < %(closed)s::timestamptz), false)
FROM (SELECT ts FROM contexts WHERE corpus > %(seq)s ORDER BY corpus LIMIT %(limit)s) AS waiting
