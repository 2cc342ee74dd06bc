-- list_parts --
-- The parts of a corpus. Their holders are alive: they have their lease and the session that got it.
SELECT chunk, bytes, CASE WHEN lease_until >= clock_timestamp() AND lease IN (SELECT lease FROM live_leases) THEN lease END AS holder
FROM corpus_parts WHERE corpus = %(corpus)s ORDER BY chunk

-- list_wanted --
-- The corpora that were compared with lately and of which nobody alive holds a part of up to some bytes.
SELECT DISTINCT corpus FROM corpus_parts
WHERE used_at > clock_timestamp() - %(timeout)s::interval AND bytes <= %(bytes)s AND NOT (
    lease IS NOT NULL AND lease_until >= clock_timestamp() AND lease IN (SELECT lease FROM live_leases))

-- put_parts --
-- A process that compares with a corpus states its parts.
INSERT INTO corpus_parts (corpus, chunk, bytes)
SELECT %(corpus)s, chunk, bytes FROM unnest(%(chunks)s::bigint[], %(bytes)s::bigint[]) AS p (chunk, bytes) ORDER BY chunk
ON CONFLICT (corpus, chunk) DO UPDATE SET bytes = excluded.bytes, used_at = clock_timestamp()

-- claim_parts --
-- Claim those of some parts that nobody alive holds.
UPDATE corpus_parts SET lease = %(lease)s, lease_until = clock_timestamp() + %(duration)s::interval, holder = %(name)s
WHERE corpus = %(corpus)s AND chunk IN (
    SELECT chunk FROM corpus_parts
    WHERE corpus = %(corpus)s AND chunk = ANY(%(chunks)s) AND (
        lease IS NULL OR lease = %(lease)s OR lease_until < clock_timestamp() OR lease NOT IN (SELECT lease FROM live_leases))
    ORDER BY chunk FOR UPDATE)
RETURNING chunk

-- renew --
-- Extend the lease of all parts of a process. One that has ended is not extended: others may have the part.
UPDATE corpus_parts SET lease_until = clock_timestamp() + %(duration)s::interval
WHERE lease = %(lease)s AND lease_until >= clock_timestamp()

-- release_parts --
UPDATE corpus_parts SET lease = NULL, lease_until = NULL, holder = NULL
WHERE corpus = %(corpus)s AND lease = %(lease)s AND chunk = ANY(%(chunks)s)

-- release_all --
UPDATE corpus_parts SET lease = NULL, lease_until = NULL, holder = NULL WHERE lease = %(lease)s

-- delete_unused --
-- Delete the parts of corpora with which nobody has compared for some time.
DELETE FROM corpus_parts WHERE used_at < clock_timestamp() - %(timeout)s::interval

-- list_held --
-- By process and corpus, the parts that are held now; without a holder, the parts that nobody holds.
SELECT holder, corpus, count(*) AS parts, sum(bytes)::bigint AS bytes FROM (
    SELECT corpus, bytes, CASE WHEN lease_until >= clock_timestamp() AND lease IN (SELECT lease FROM live_leases) THEN holder END AS holder
    FROM corpus_parts) p
GROUP BY holder, corpus ORDER BY holder NULLS LAST, corpus

-- ask --
-- Ask the holder of parts to compare a task's event with its parts. An earlier request is replaced.
INSERT INTO part_comparisons (task, fence, holder, spans, max_sequence, event_count)
VALUES (%(task)s, %(fence)s, %(holder)s, %(spans)s, %(max_sequence)s, %(event_count)s)
ON CONFLICT (task, holder) DO UPDATE SET fence = excluded.fence, spans = excluded.spans,
    max_sequence = excluded.max_sequence, event_count = excluded.event_count, asked_at = clock_timestamp(),
    answer = NULL, compared = NULL, error = NULL

-- list_asked --
-- What a process is asked for tasks that still run under the same claim, the first first.
SELECT p.task, p.fence, p.spans, p.max_sequence, p.event_count
FROM part_comparisons p JOIN tasks t ON t.id = p.task AND t.fence = p.fence AND t.state = 'running'
WHERE p.holder = %(holder)s AND p.answer IS NULL AND p.error IS NULL ORDER BY p.asked_at LIMIT %(limit)s

-- answer --
-- Store a partial answer, unless it is not asked for any more.
UPDATE part_comparisons SET answer = %(answer)s, compared = %(compared)s, error = %(error)s
WHERE task = %(task)s AND holder = %(holder)s AND fence = %(fence)s AND spans = %(spans)s
    AND max_sequence = %(max_sequence)s

-- list_answers --
-- The answers to some tasks' requests, and those that will not be answered: their holders have ended.
SELECT task, fence, holder, answer, compared, error FROM part_comparisons
WHERE task = ANY(%(tasks)s) AND (answer IS NOT NULL OR error IS NOT NULL OR holder NOT IN (SELECT lease FROM live_leases))

-- delete_requests --
DELETE FROM part_comparisons WHERE task = ANY(%(tasks)s)

-- delete_old_requests --
DELETE FROM part_comparisons WHERE asked_at < clock_timestamp() - %(timeout)s::interval
