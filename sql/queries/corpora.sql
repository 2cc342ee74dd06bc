-- lock_numbering --
-- Sequence numbers of settled events and corpora are assigned by two processes and followed by
-- others. Who assigns or follows them holds this lock until the end of its transaction, so that no
-- number becomes visible after a higher one was read.
SELECT pg_advisory_xact_lock(hashtextextended('moirae numbers', 0))

-- add_settled --
-- Number settled contexts in event order, once their alert has fired by settled events alone; of
-- `rules_of_unfired`, also those of alerts that never fire. These are the first events of alerts or, for
-- `rules_of_every_event`, all. Events before `corpus_from` are numbered when their view is computed (see `add_past`).
WITH ready AS (
    SELECT c.rule, c.version, c.eid FROM contexts c
    JOIN events e ON e.rule = c.rule AND e.version = c.version AND e.eid = c.eid
    LEFT JOIN deployments d ON d.rule = c.rule AND d.version = c.version
    WHERE c.corpus IS NULL AND c.settled AND NOT c.past AND c.ts >= coalesce(d.corpus_from, '-infinity') AND EXISTS (
        SELECT FROM alerts a WHERE a.rule = c.rule AND a.version = c.version AND a.fingerprint = e.fingerprint
            AND a.state <> 'withdrawn' AND a.settled IS NOT NULL
            AND (a.settled->>'fired' IS NOT NULL OR c.rule = ANY(%(rules_of_unfired)s))
            AND (a.eid = c.eid OR (c.rule = ANY(%(rules_of_every_event)s) AND c.ts BETWEEN a.starts_at AND a.last_at)))
    ORDER BY c.ts, c.eid)
UPDATE contexts c SET corpus = r.number
FROM (SELECT nextval('corpus_numbers') AS number, ready.* FROM ready) r
WHERE c.rule = r.rule AND c.version = r.version AND c.eid = r.eid
RETURNING c.rule, c.version, (extract(epoch FROM c.ts) * 1000000)::bigint AS ts

-- add_past --
-- Number events of the past in event order, unless they are numbered.
UPDATE contexts c SET corpus = r.number
FROM (SELECT nextval('corpus_numbers') AS number, eid FROM (
    SELECT eid FROM contexts WHERE rule = %(rule)s AND version = %(version)s AND eid = ANY(%(eids)s)
        AND corpus IS NULL AND settled ORDER BY ts, eid) ready) r
WHERE c.rule = %(rule)s AND c.version = %(version)s AND c.eid = r.eid

-- list_after --
-- The events of a corpus after a number, by number.
SELECT corpus AS number, eid, (extract(epoch FROM ts) * 1000000)::bigint AS ts, contexts FROM contexts
WHERE corpus > %(after)s AND rule = %(rule)s AND version = %(version)s ORDER BY corpus

-- has_later --
-- Whether a corpus has events before an event time with a number above another.
SELECT EXISTS (SELECT FROM contexts WHERE corpus > %(number)s AND rule = %(rule)s AND version = %(version)s
    AND ts < %(before)s)

-- count_indexed --
-- The number of events of a corpus before an event time, and how many of them are numbered up to a
-- number.
SELECT count(*) AS events, count(*) FILTER (WHERE corpus <= %(number)s) AS indexed FROM contexts
WHERE corpus IS NOT NULL AND rule = %(rule)s AND version = %(version)s AND ts < %(before)s

-- get_numbers --
-- The highest number, of rows here or deleted ones in the archive; and the number up to which rows may have been
-- deleted: the archive has them.
SELECT greatest((SELECT max(corpus) FROM contexts), number) AS last, number AS deleted_to FROM corpus_forgotten

-- list_ids --
-- The events of all corpora up to a number, as the archive names them.
SELECT rule, version, eid::text FROM contexts WHERE corpus <= %(last_number)s
