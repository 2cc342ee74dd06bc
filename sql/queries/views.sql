-- views --
-- How far the past of each version of a rule is found, by chunk.
SELECT rule, version, chunk, (extract(epoch FROM upto) * 1000000)::bigint AS upto, tries FROM views
WHERE rule = %(rule)s AND version = %(version)s

-- deployed --
-- What runs and has a past: from where on it is live's, and from where on live decides on the corpus.
SELECT rule, version, (extract(epoch FROM live_from) * 1000000)::bigint AS live_from,
    (extract(epoch FROM corpus_from) * 1000000)::bigint AS corpus_from
FROM deployments WHERE state = 'running' AND corpus_from IS NOT NULL

-- claim --
-- What is so named is for this session to do, unless it is for another.
SELECT pg_try_advisory_lock(hashtextextended('moirae past ' || %(name)s, 0))

-- release --
-- It is done, or left to another.
SELECT pg_advisory_unlock(hashtextextended('moirae past ' || %(name)s, 0))

-- begin --
-- A view is begun; if the process falls over it, that was a try.
INSERT INTO views (rule, version, chunk, tries, asked) VALUES (%(rule)s, %(version)s, %(chunk)s, 1, %(asked)s)
ON CONFLICT (rule, version, chunk) DO UPDATE SET tries = views.tries + 1, asked = excluded.asked

-- untried --
-- Whoever began a view ended in good order: that was no try.
UPDATE views SET tries = greatest(tries - 1, 0) WHERE rule = %(rule)s AND version = %(version)s AND chunk = %(chunk)s

-- failed --
-- A view cannot be found.
UPDATE views SET error = %(error)s WHERE rule = %(rule)s AND version = %(version)s AND chunk = %(chunk)s

-- done --
-- A view is found up to an event time.
UPDATE views v SET upto = greatest(upto, %(upto)s::timestamptz), tries = 0, error = NULL, done_at = clock_timestamp(),
    seconds = seconds + %(seconds)s,
    events = (SELECT count(*) FROM events e WHERE e.rule = v.rule AND e.version = v.version AND e.settled
        AND e.ts >= coalesce(%(from)s::timestamptz, '-infinity') AND e.ts < %(upto)s::timestamptz),
    corpus = (SELECT count(*) FROM contexts c WHERE c.rule = v.rule AND c.version = v.version AND c.corpus IS NOT NULL
        AND c.ts >= coalesce(%(from)s::timestamptz, '-infinity') AND c.ts < %(upto)s::timestamptz)
WHERE v.rule = %(rule)s AND v.version = %(version)s AND v.chunk = %(chunk)s

-- put_event --
-- An event of the past, once.
INSERT INTO events (eid, rule, version, ts, fingerprint, key, attributes, settled, past)
VALUES (%(eid)s, %(rule)s, %(version)s, %(ts)s, %(fingerprint)s, %(key)s, %(attributes)s, %(settled)s, true)
ON CONFLICT (rule, version, eid) DO NOTHING

-- put_alert --
-- An alert of the past, over.
INSERT INTO alerts (id, eid, rule, version, fingerprint, key, labels, annotations, state, starts_at, fired_at, last_at,
    ends_at, events, past)
VALUES (%(id)s, %(eid)s, %(rule)s, %(version)s, %(fingerprint)s, %(key)s, %(labels)s, %(annotations)s, 'resolved',
    %(starts_at)s, %(fired_at)s, %(last_at)s, %(ends_at)s, %(events)s, true)
ON CONFLICT (id) DO NOTHING

-- grow --
-- Alerts of the past that go on over the borders of a span last as long as the events known by now.
UPDATE alerts a SET last_at = greatest(a.last_at, g.last_at), events = greatest(a.events, g.events),
    ends_at = greatest(a.ends_at, g.last_at + make_interval(secs => %(keep)s))
FROM alerts b, LATERAL (
    SELECT max(ts) AS last_at, count(*) AS events FROM (
        SELECT ts, count(*) FILTER (WHERE gap) OVER (ORDER BY ts, eid) AS gaps FROM (
            SELECT ts, eid, ts > lag(ts) OVER (ORDER BY ts, eid) + make_interval(secs => %(keep)s) AS gap FROM events e
            WHERE e.rule = b.rule AND e.version = b.version AND e.fingerprint = b.fingerprint AND e.settled
                AND e.ts >= b.starts_at AND e.ts < %(live_from)s::timestamptz) s) t
    WHERE gaps = 0) g
WHERE b.id = a.id AND b.rule = %(rule)s AND b.version = %(version)s AND b.past
    AND ((b.starts_at < %(low)s::timestamptz AND b.ends_at >= %(low)s::timestamptz) OR (b.starts_at < %(high)s::timestamptz AND b.ends_at >= %(high)s::timestamptz))

-- known_contexts --
-- Which of some events have a context that stays.
SELECT eid FROM contexts WHERE rule = %(rule)s AND version = %(version)s AND eid = ANY(%(eids)s) AND settled

-- put_context --
-- The context of an event of the past; one that live has not settled yet is replaced.
INSERT INTO contexts (rule, version, eid, ts, contexts, surroundings, cut, settled, past)
VALUES (%(rule)s, %(version)s, %(eid)s, %(ts)s, %(contexts)s, %(surroundings)s, %(cut)s, true, true)
ON CONFLICT (rule, version, eid) DO UPDATE SET contexts = excluded.contexts, surroundings = excluded.surroundings,
    cut = excluded.cut, settled = true
WHERE NOT contexts.settled

-- enter_corpus --
-- Events enter the corpus in their order, once.
UPDATE contexts c SET corpus = r.number
FROM (SELECT nextval('corpus_numbers') AS number, eid FROM (
    SELECT eid FROM contexts WHERE rule = %(rule)s AND version = %(version)s AND eid = ANY(%(eids)s)
        AND corpus IS NULL AND settled ORDER BY ts, eid) ready) r
WHERE c.rule = %(rule)s AND c.version = %(version)s AND c.eid = r.eid

-- progress --
-- The past of what runs, by rule and the state of its chunks.
SELECT d.rule, d.version, c.state, count(*) AS chunks,
    count(*) FILTER (WHERE v.upto IS NOT NULL) AS found,
    count(*) FILTER (WHERE v.error IS NOT NULL OR v.tries > 2) AS failed,
    coalesce(sum(v.events), 0)::bigint AS events, coalesce(sum(v.corpus), 0)::bigint AS corpus,
    coalesce(sum(v.seconds), 0)::float8 AS seconds, max(v.error) AS error
FROM deployments d
JOIN chunks c ON (c.from_ts IS NULL OR c.from_ts < d.corpus_from) AND c.state <> 'expired'
LEFT JOIN views v ON v.rule = d.rule AND v.version = d.version AND v.chunk = c.id
WHERE d.state = 'running' AND d.corpus_from IS NOT NULL GROUP BY d.rule, d.version, c.state ORDER BY d.rule, c.state

