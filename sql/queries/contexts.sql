-- wanted --
-- Events that recalls are about (the first of each alert that has fired, or every event of one) and that have no
-- context yet.
SELECT DISTINCT ON (e.ts, e.eid) e.eid, (extract(epoch FROM e.ts) * 1000000)::bigint AS ts, e.key, e.attributes,
    e.settled
FROM alerts a
JOIN events e ON e.rule = a.rule AND e.version = a.version
    AND (e.eid = a.eid OR (%(every)s AND e.fingerprint = a.fingerprint AND e.ts BETWEEN a.starts_at AND a.last_at))
LEFT JOIN contexts c ON c.rule = e.rule AND c.version = e.version AND c.eid = e.eid
WHERE a.rule = %(rule)s AND a.version = %(version)s AND a.fired_at IS NOT NULL AND a.state <> 'withdrawn' AND NOT a.past
  AND (%(since)s::timestamptz IS NULL OR a.updated_at >= %(since)s) AND c.eid IS NULL
ORDER BY e.ts, e.eid LIMIT %(limit)s

-- unsettled --
-- Events of a version with a context that may still change, before a moment of event time.
SELECT c.eid, (extract(epoch FROM c.ts) * 1000000)::bigint AS ts, e.key, e.attributes, c.contexts
FROM contexts c JOIN events e ON e.rule = c.rule AND e.version = c.version AND e.eid = c.eid AND e.settled
WHERE c.rule = %(rule)s AND c.version = %(version)s AND NOT c.settled AND c.corpus IS NULL AND c.ts < %(before)s
ORDER BY c.ts, c.eid LIMIT %(limit)s

-- put --
-- The context of an event, provisional or settled.
INSERT INTO contexts (rule, version, eid, ts, contexts, surroundings, cut, settled)
VALUES (%(rule)s, %(version)s, %(eid)s, %(ts)s, %(contexts)s, %(surroundings)s, %(cut)s, %(settled)s)
ON CONFLICT (rule, version, eid) DO UPDATE SET contexts = excluded.contexts, surroundings = excluded.surroundings,
    cut = excluded.cut, settled = excluded.settled,
    at = CASE WHEN (contexts.contexts, contexts.surroundings) IS DISTINCT FROM (excluded.contexts, excluded.surroundings)
        THEN clock_timestamp() ELSE contexts.at END
WHERE NOT contexts.settled

-- touch --
-- Alerts whose events have got their settled contexts have changed.
UPDATE alerts a SET updated_at = clock_timestamp()
FROM events e
WHERE e.rule = %(rule)s AND e.version = %(version)s AND e.eid = ANY(%(eids)s) AND a.rule = e.rule
  AND a.version = e.version AND a.fingerprint = e.fingerprint AND e.ts BETWEEN a.starts_at AND a.last_at

-- in_turn --
-- Numbers (of settled events, of the corpus) are given by two processes and followed by others: who gives or follows
-- them holds this until its transaction ends, so that none becomes visible after a higher one was seen.
SELECT pg_advisory_xact_lock(hashtextextended('moirae numbers', 0))

-- enter_corpus --
-- Settled contexts enter the corpus in the order of their events, once their alert has fired by settled events alone.
-- It is the first event of an alert, or for some rules every event of one. What lies before the point from which live
-- knows what is the first of an alert is decided when the past of the rule is found.
WITH ready AS (
    SELECT c.rule, c.version, c.eid FROM contexts c
    JOIN events e ON e.rule = c.rule AND e.version = c.version AND e.eid = c.eid
    LEFT JOIN deployments d ON d.rule = c.rule AND d.version = c.version
    WHERE c.corpus IS NULL AND c.settled AND NOT c.past AND c.ts >= coalesce(d.corpus_from, '-infinity') AND EXISTS (
        SELECT FROM alerts a WHERE a.rule = c.rule AND a.version = c.version AND a.fingerprint = e.fingerprint
            AND a.state <> 'withdrawn' AND a.settled->>'fired' IS NOT NULL
            AND (a.eid = c.eid OR (c.rule = ANY(%(every)s) AND c.ts BETWEEN a.starts_at AND a.last_at)))
    ORDER BY c.ts, c.eid)
UPDATE contexts c SET corpus = r.number
FROM (SELECT nextval('corpus_numbers') AS number, ready.* FROM ready) r
WHERE c.rule = r.rule AND c.version = r.version AND c.eid = r.eid
RETURNING c.rule, c.version, (extract(epoch FROM c.ts) * 1000000)::bigint

-- forget --
-- Contexts of events that settling did not confirm, or not as the first of an alert.
DELETE FROM contexts c WHERE c.corpus IS NULL AND NOT c.past AND (
    NOT EXISTS (SELECT FROM events e WHERE e.rule = c.rule AND e.version = c.version AND e.eid = c.eid)
    OR (NOT c.rule = ANY(%(every)s) AND NOT EXISTS (
        SELECT FROM alerts a WHERE a.rule = c.rule AND a.eid = c.eid AND a.state <> 'withdrawn')))

-- tail --
-- The newest of a version's corpus, by number.
SELECT corpus AS number, eid, (extract(epoch FROM ts) * 1000000)::bigint AS ts, contexts FROM contexts
WHERE corpus > %(after)s AND rule = %(rule)s AND version = %(version)s ORDER BY corpus

-- not_in --
-- Whether events of a version's corpus before a time came in after a number.
SELECT EXISTS (SELECT FROM contexts WHERE corpus > %(number)s AND rule = %(rule)s AND version = %(version)s
    AND ts < %(before)s)

-- in_index --
-- How many events of a version's corpus lie before a time, and how many of these came in up to a number.
SELECT count(*), count(*) FILTER (WHERE corpus <= %(number)s) FROM contexts
WHERE corpus IS NOT NULL AND rule = %(rule)s AND version = %(version)s AND ts < %(before)s

-- last_number --
-- How far the corpus goes, here or in the archive.
SELECT greatest((SELECT max(corpus) FROM contexts), (SELECT number FROM corpus_forgotten))

-- forgotten --
-- Up to which number the corpus may be in the archive only.
SELECT number FROM corpus_forgotten

-- context --
-- The context of an event, the newest version of its rule first.
SELECT c.rule, c.version, c.eid, c.ts, c.contexts, c.surroundings, c.settled FROM contexts c WHERE c.eid = ANY(%(eids)s)

-- cut --
-- Which contexts and surroundings of an event are cut, and how many rows there were.
SELECT cut FROM contexts WHERE rule = %(rule)s AND version = %(version)s AND eid = %(eid)s AND cut IS NOT NULL

-- count_cut --
-- How many events of each rule have a context or surrounding that is cut.
SELECT rule, count(*) FROM contexts WHERE cut IS NOT NULL GROUP BY rule ORDER BY rule

-- export --
-- Settled contexts, oldest first.
SELECT eid, rule, ts, contexts, surroundings FROM contexts WHERE settled ORDER BY ts, eid

-- untasked --
-- Events whose recalls are to begin: with a context where the recall needs one, without tasks of this recall. Nobody
-- waits for an answer about the long past: there the context must be settled.
SELECT DISTINCT ON (e.ts, e.eid) e.eid, (extract(epoch FROM e.ts) * 1000000)::bigint AS ts, e.key, e.attributes,
    e.ts < %(past)s AS background
FROM alerts a
JOIN events e ON e.rule = a.rule AND e.version = a.version
    AND (e.eid = a.eid OR (%(every)s AND e.fingerprint = a.fingerprint AND e.ts BETWEEN a.starts_at AND a.last_at))
LEFT JOIN tasks t ON t.eid = e.eid AND t.rule = e.rule AND t.version = e.version AND t.recall = %(recall)s
LEFT JOIN contexts c ON c.rule = e.rule AND c.version = e.version AND c.eid = e.eid
WHERE a.rule = %(rule)s AND a.version = %(version)s AND a.fired_at IS NOT NULL AND a.state <> 'withdrawn' AND NOT a.past
  AND (%(since)s::timestamptz IS NULL OR a.updated_at >= %(since)s) AND t.id IS NULL AND (c.eid IS NOT NULL OR NOT %(context)s)
  AND NOT (%(context)s AND e.ts < %(past)s AND NOT coalesce(c.settled, false))
ORDER BY e.ts, e.eid LIMIT %(limit)s
