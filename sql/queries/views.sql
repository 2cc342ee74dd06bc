-- list_of_version --
-- How far the past of a version of a rule is stored, by chunk.
SELECT chunk, (extract(epoch FROM upto) * 1000000)::bigint AS upto, tries FROM views
WHERE rule = %(rule)s AND version = %(version)s

-- try_lock --
-- Take the advisory lock of a task, unless another session has it.
SELECT pg_try_advisory_lock(hashtextextended('moirae past ' || %(name)s, 0))

-- unlock --
-- Release the advisory lock of a task.
SELECT pg_advisory_unlock(hashtextextended('moirae past ' || %(name)s, 0))

-- begin_attempt --
-- Count an attempt to compute a view.
INSERT INTO views (rule, version, chunk, tries, asked) VALUES (%(rule)s, %(version)s, %(chunk)s, 1, %(requested)s)
ON CONFLICT (rule, version, chunk) DO UPDATE SET tries = views.tries + 1, asked = excluded.asked

-- undo_attempt --
-- Undo the count of an attempt that an orderly shutdown interrupted.
UPDATE views SET tries = greatest(tries - 1, 0) WHERE rule = %(rule)s AND version = %(version)s AND chunk = %(chunk)s

-- set_error --
-- Record why a view could not be computed.
UPDATE views SET error = %(error)s WHERE rule = %(rule)s AND version = %(version)s AND chunk = %(chunk)s

-- complete --
-- Record that a view is stored up to an event time, and count its events.
UPDATE views v SET upto = greatest(upto, %(complete_until)s::timestamptz), tries = 0, error = NULL,
    done_at = clock_timestamp(), seconds = seconds + %(seconds)s,
    events = (SELECT count(*) FROM events e WHERE e.rule = v.rule AND e.version = v.version AND e.settled
        AND e.ts >= coalesce(%(chunk_from)s::timestamptz, '-infinity') AND e.ts < %(complete_until)s::timestamptz),
    corpus = (SELECT count(*) FROM contexts c WHERE c.rule = v.rule AND c.version = v.version AND c.corpus IS NOT NULL
        AND c.ts >= coalesce(%(chunk_from)s::timestamptz, '-infinity') AND c.ts < %(complete_until)s::timestamptz)
WHERE v.rule = %(rule)s AND v.version = %(version)s AND v.chunk = %(chunk)s

-- insert_event --
-- Store past events that are not stored.
INSERT INTO events (eid, rule, version, ts, fingerprint, key, attributes, settled, past)
SELECT eid, rule, version, ts, fingerprint, key, attributes, settled, true
FROM json_to_recordset(%(rows)s::json) AS new (
    eid uuid, rule text, version text, ts timestamptz, fingerprint text, key jsonb, attributes jsonb, settled boolean)
ON CONFLICT (rule, version, eid) DO NOTHING

-- insert_alert --
-- Store past alerts that are not stored.
INSERT INTO alerts (id, eid, rule, version, fingerprint, key, labels, annotations, state, starts_at, fired_at, last_at,
    ends_at, events, past)
SELECT id, eid, rule, version, fingerprint, key, labels, annotations, state, starts_at, fired_at, last_at, ends_at,
    events, true
FROM json_to_recordset(%(rows)s::json) AS new (
    id uuid, eid uuid, rule text, version text, fingerprint text, key jsonb, labels jsonb, annotations jsonb, state text,
    starts_at timestamptz, fired_at timestamptz, last_at timestamptz, ends_at timestamptz, events bigint)
ON CONFLICT (id) DO NOTHING

-- extend_alerts --
-- Extend past alerts that cross a border of a range, by the events stored by now.
UPDATE alerts a SET last_at = greatest(a.last_at, g.last_at), events = greatest(a.events, g.events),
    ends_at = greatest(a.ends_at, g.last_at + make_interval(secs => %(keep_seconds)s))
FROM alerts b, LATERAL (
    SELECT max(ts) AS last_at, count(*) AS events FROM (
        SELECT ts, count(*) FILTER (WHERE gap) OVER (ORDER BY ts, eid) AS gaps FROM (
            SELECT ts, eid, ts > lag(ts) OVER (ORDER BY ts, eid) + make_interval(secs => %(keep_seconds)s) AS gap
            FROM events e WHERE e.rule = b.rule AND e.version = b.version AND e.fingerprint = b.fingerprint AND e.settled
                AND e.ts >= b.starts_at AND e.ts < %(live_from)s::timestamptz) s) t
    WHERE gaps = 0) g
WHERE b.id = a.id AND b.rule = %(rule)s AND b.version = %(version)s AND b.past
    AND ((b.starts_at < %(low)s::timestamptz AND b.ends_at >= %(low)s::timestamptz)
        OR (b.starts_at < %(high)s::timestamptz AND b.ends_at >= %(high)s::timestamptz))

-- insert_context --
-- Store the context of a past event. It replaces a context that the live process has not settled.
INSERT INTO contexts (rule, version, eid, ts, contexts, surroundings, cut, settled, past)
VALUES (%(rule)s, %(version)s, %(eid)s, %(ts)s, %(contexts)s, %(surroundings)s, %(cut)s, true, true)
ON CONFLICT (rule, version, eid) DO UPDATE SET contexts = excluded.contexts, surroundings = excluded.surroundings,
    cut = excluded.cut, settled = true
WHERE NOT contexts.settled

-- list_progress --
-- Progress of the views of running versions, by rule and chunk state.
SELECT d.rule, d.version, c.state, count(*) AS chunks,
    count(*) FILTER (WHERE v.upto IS NOT NULL) AS with_view,
    count(*) FILTER (WHERE v.error IS NOT NULL OR v.tries > 2) AS failed,
    coalesce(sum(v.events), 0)::bigint AS events, coalesce(sum(v.corpus), 0)::bigint AS corpus,
    coalesce(sum(v.seconds), 0)::float8 AS seconds, max(v.error) AS error
FROM deployments d
JOIN chunks c ON (c.from_ts IS NULL OR c.from_ts < d.corpus_from) AND c.state <> 'expired'
LEFT JOIN views v ON v.rule = d.rule AND v.version = d.version AND v.chunk = c.id
WHERE d.state = 'running' AND d.corpus_from IS NOT NULL GROUP BY d.rule, d.version, c.state ORDER BY d.rule, c.state
