-- add --
-- A recall for an event, once. Returns nothing where it is there already.
INSERT INTO tasks (id, eid, rule, version, recall, request, event, level, tickets)
VALUES (%(id)s, %(eid)s, %(rule)s, %(version)s, %(recall)s, %(request)s, %(event)s, %(level)s, %(tickets)s)
ON CONFLICT (id) DO NOTHING

-- take_lease --
-- A number for a process, which is alive as long as it holds the lock of that number.
WITH taken AS (SELECT nextval('leases')::integer AS lease)
SELECT lease, pg_advisory_lock(hashtext('moirae leases'), lease) FROM taken

-- end_frozen_transactions --
-- The session of a process that does not go on ends with its locks, before its lease does. One that only gets the
-- leavings of a busy machine may not move for seconds and is well.
SET idle_in_transaction_session_timeout = '20s'

-- reclaim --
-- What dead processes worked on, and what those did that have given no sign, waits for another. They may have died of it.
UPDATE tasks SET state = 'waiting', lease = NULL, tries = tries + (asked_at IS NOT NULL)::integer, asked_at = NULL WHERE id IN (SELECT id FROM tasks
WHERE state = 'running' AND (lease_until < clock_timestamp() OR lease NOT IN (
    SELECT objid::bigint FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 2 AND granted
        AND classid = (hashtext('moirae leases')::bigint & 4294967295)::oid
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())))
FOR UPDATE SKIP LOCKED)

-- claim --
-- Take tasks that nobody works on: those without an answer first, of each rule only some, so that none takes all.
UPDATE tasks SET state = 'running', lease = %(lease)s, lease_until = clock_timestamp() + %(length)s, fence = fence + 1,
    started_at = coalesce(started_at, clock_timestamp()), unasked_since = coalesce(unasked_since, clock_timestamp()),
    asked_at = NULL
WHERE id IN (
    SELECT t.id
    FROM (SELECT DISTINCT rule FROM tasks WHERE level = %(level)s AND state = 'waiting') r
    CROSS JOIN LATERAL (
        SELECT id, revision > 0 AS answered, created_at FROM tasks
        WHERE level = %(level)s AND state = 'waiting' AND rule = r.rule AND rule <> ALL(%(full)s)
        ORDER BY revision > 0, created_at, id LIMIT %(each)s FOR UPDATE SKIP LOCKED) t
    ORDER BY t.answered, t.created_at, t.id LIMIT %(limit)s)
RETURNING id, eid, rule, version, recall, request, event, level, tickets, pieces, corpus, next, failed, skipped, held,
    revision, tries, fence, created_at

-- unreadable --
-- A task was asked for in a form that is not known any more: it has failed.
UPDATE tasks SET state = 'failed', error = %(error)s, held = NULL, ended_at = clock_timestamp()
WHERE id = %(id)s AND fence = %(fence)s AND state = 'running'

-- unanswered --
-- Whether tasks of the first level wait that have no answer yet.
SELECT EXISTS (SELECT FROM tasks WHERE level = 0 AND state = 'waiting' AND revision = 0)

-- defer --
-- Tasks with an answer make room for those without.
UPDATE tasks SET state = 'waiting', lease = NULL WHERE id = ANY(%(ids)s) AND lease = %(lease)s AND state = 'running'

-- exceeded --
-- How many tasks of a recall have needed too much in the last hour, since one of them was answered.
SELECT count(*) FROM tasks
WHERE rule = %(rule)s AND version = %(version)s AND recall = %(recall)s AND exceeded
  AND ended_at > clock_timestamp() - interval '1 hour' AND ended_at > coalesce((
    SELECT max(ended_at) FROM tasks
    WHERE rule = %(rule)s AND version = %(version)s AND recall = %(recall)s AND state = 'done'), '-infinity')

-- renew --
-- The process still works on its tasks.
UPDATE tasks SET lease_until = clock_timestamp() + %(length)s WHERE id IN (
    SELECT id FROM tasks WHERE lease = %(lease)s AND state = 'running' ORDER BY id FOR UPDATE)

-- at_work --
-- The tasks of a process as they stand.
SELECT id, fence, level, tickets FROM tasks WHERE lease = %(lease)s AND state = 'running'

-- pinned_chunks --
-- Chunks that open tasks may still read.
SELECT DISTINCT (piece->>0)::integer FROM tasks, jsonb_array_elements(pieces) AS piece
WHERE state IN ('waiting', 'running', 'suspended')

-- pin --
-- What the task will read, fixed at its first history query.
UPDATE tasks SET pieces = %(pieces)s, skipped = %(skipped)s, next = %(skipped)s, corpus = %(corpus)s
WHERE id = %(id)s AND fence = %(fence)s AND state = 'running'

-- asked --
-- A query for the next piece of some tasks begins.
UPDATE tasks SET asked_at = clock_timestamp() WHERE id IN (
    SELECT id FROM tasks WHERE id = ANY(%(ids)s) AND lease = %(lease)s AND state = 'running' ORDER BY id FOR UPDATE)

-- charge --
-- A process falls over the next piece of some tasks, or over the condition of an ended one.
UPDATE tasks SET tries = tries + 1, asked_at = NULL WHERE id IN (
    SELECT id FROM tasks WHERE id = ANY(%(ids)s) AND (lease = %(lease)s OR state NOT IN ('waiting', 'running'))
    ORDER BY id FOR UPDATE)

-- release --
-- The process ends: what it has begun goes on in the next.
UPDATE tasks SET state = 'waiting', lease = NULL, asked_at = NULL WHERE id IN (
    SELECT id FROM tasks WHERE lease = %(lease)s AND state = 'running' ORDER BY id FOR UPDATE)

-- advance --
-- A piece of history is in: its result and the cursor move together, so that it counts once. A task loses tickets for
-- its results, and is suspended when it has gone on without feedback for as long as its rule says.
UPDATE tasks SET next = %(next)s, failed = %(failed)s, seen = seen || %(seen)s, held = %(held)s, rows = rows + %(rows)s,
    results = results + %(results)s, tickets = greatest(1, tickets - %(lost)s),
    seconds = seconds + %(seconds)s, tries = 0, asked_at = NULL, exceeded = %(exceeded)s, revision = %(revision)s, error = %(error)s,
    first_at = CASE WHEN %(revision)s > 0 THEN coalesce(first_at, clock_timestamp()) END,
    ended_at = CASE WHEN %(state)s <> 'running' THEN clock_timestamp() END,
    state = CASE WHEN d.unasked AND %(state)s = 'running' THEN 'suspended' ELSE %(state)s END,
    deadline = CASE WHEN d.unasked AND %(state)s = 'running' THEN clock_timestamp() + %(patience)s END
FROM (SELECT id, clock_timestamp() >= unasked_since + make_interval(secs => (request->>'feedback')::float8) AS unasked
      FROM tasks WHERE id = %(id)s) d
WHERE tasks.id = d.id AND fence = %(fence)s AND state = 'running' AND next = %(before)s
RETURNING state, tickets

-- hold --
-- Rows of tasks that are to be changed together; everybody takes them in this order.
SELECT id FROM tasks WHERE id = ANY(%(ids)s) ORDER BY id FOR UPDATE

-- put_revision --
-- A numbered answer.
INSERT INTO revisions (task, number, final, coverage, answer, estimates, comparable)
VALUES (%(task)s, %(number)s, %(final)s, %(coverage)s, %(answer)s, %(estimates)s, %(comparable)s)

-- open_commands --
-- What is asked and not done.
SELECT id FROM commands WHERE done_at IS NULL ORDER BY id

-- lock_command --
-- A command to be carried out by this process alone.
SELECT command, target FROM commands WHERE id = %(id)s AND done_at IS NULL FOR UPDATE SKIP LOCKED

-- command --
-- Ask for something, once; the recall process does it within one piece of history.
INSERT INTO commands (key, command, target, author)
VALUES (%(key)s, %(command)s, jsonb_strip_nulls(%(target)s::jsonb || jsonb_build_object(
    'before', clock_timestamp() - make_interval(secs => %(older)s::float8))), %(author)s)
ON CONFLICT (key) DO NOTHING RETURNING id

-- known_command --
-- A command by its key.
SELECT id, command, target, author FROM commands WHERE key = %(key)s

-- command_done --
-- A command was carried out.
UPDATE commands SET done_at = clock_timestamp(), effect = %(effect)s WHERE id = %(id)s

-- command_effect --
-- What a command has done; NULL while it waits.
SELECT effect FROM commands WHERE id = %(id)s

-- meant --
-- The tasks that a command means, of those that have not ended.
SELECT id FROM tasks WHERE state IN ('waiting', 'running', 'suspended')
  AND (%(eid)s::uuid IS NULL OR eid = %(eid)s::uuid)
  AND (%(task)s::uuid IS NULL OR id = %(task)s::uuid)
  AND (%(rule)s::text IS NULL OR rule = %(rule)s OR rule LIKE '%%/' || %(rule)s)
  AND (%(before)s::timestamptz IS NULL OR created_at < %(before)s::timestamptz)
ORDER BY id FOR UPDATE

-- known_rule --
-- Whether a rule, by its name with or without its group, is deployed or has recalls.
SELECT 1 FROM deployments WHERE rule = %(rule)s OR rule LIKE '%%/' || %(rule)s
UNION ALL (SELECT 1 FROM tasks WHERE rule = %(rule)s OR rule LIKE '%%/' || %(rule)s LIMIT 1)

-- ahead --
-- What tasks that wait for their turns or have them still read, in numbers; of one that nobody has begun all chunks.
SELECT id, level, tickets, state <> 'suspended' AS goes_on,
    coalesce(jsonb_array_length(pieces) - next, (SELECT count(*)::integer FROM chunks WHERE state <> 'expired')) AS left,
    CASE WHEN next > skipped THEN seconds / (next - skipped) END AS each
FROM tasks WHERE state IN ('waiting', 'running') OR id = ANY(%(ids)s)

-- cancel --
-- End tasks, without their answers.
WITH gone AS (DELETE FROM revisions WHERE task = ANY(%(ids)s))
UPDATE tasks SET state = 'cancelled', ended_at = clock_timestamp(), held = NULL, deadline = NULL WHERE id = ANY(%(ids)s)

-- finalize --
-- End tasks; returns their last answers, NULL where there is none.
WITH ended AS (
    UPDATE tasks SET state = 'finalized', ended_at = clock_timestamp(), held = NULL, deadline = NULL,
        error = coalesce(%(reason)s, error), revision = revision + CASE WHEN revision > 0 THEN 1 ELSE 0 END
    WHERE id = ANY(%(ids)s) RETURNING id, rule, version, recall, request->>'kind' AS kind)
SELECT e.id, e.rule, e.version, e.recall, e.kind, r.number, r.coverage, r.answer, r.estimates
FROM ended e LEFT JOIN LATERAL (SELECT * FROM revisions r WHERE r.task = e.id ORDER BY number DESC LIMIT 1) r ON true

-- accelerate --
-- More tickets for tasks, and the first level; who asks for that has given feedback.
UPDATE tasks SET tickets = least(tickets * %(factor)s, %(most)s), level = 0, unasked_since = clock_timestamp(),
    deadline = NULL, state = CASE state WHEN 'suspended' THEN 'waiting' ELSE state END
WHERE id = ANY(%(ids)s)

-- refine --
-- Tasks go on for another while.
UPDATE tasks SET unasked_since = clock_timestamp(), deadline = NULL,
    state = CASE state WHEN 'suspended' THEN 'waiting' ELSE state END
WHERE id = ANY(%(ids)s)

-- silent --
-- Tasks of events about which nobody has said anything in time, or of all that wait for feedback.
SELECT id FROM tasks WHERE state IN ('waiting', 'running', 'suspended') AND eid IN (
    SELECT eid FROM tasks WHERE state = 'suspended' AND (deadline < clock_timestamp() OR %(all)s))
ORDER BY id FOR UPDATE

-- again --
-- The contexts of events have changed: their similarity recalls begin again, their revisions go on.
UPDATE tasks SET state = 'waiting', pieces = NULL, corpus = NULL, next = 0, failed = 0, skipped = 0,
    held = NULL, lease = NULL, ended_at = NULL, deadline = NULL, error = NULL
WHERE id IN (
    SELECT id FROM tasks
    WHERE (eid, version) IN (SELECT * FROM unnest(%(eids)s::uuid[], %(versions)s::text[]))
      AND request->>'kind' = 'similar' AND state IN ('waiting', 'running', 'suspended', 'done')
    ORDER BY id FOR UPDATE)

-- again_where_incomplete --
-- Events have entered a corpus: similarity recalls about later events that were compared without them begin again.
UPDATE tasks SET state = 'waiting', pieces = NULL, corpus = NULL, next = 0, failed = 0, skipped = 0,
    held = NULL, lease = NULL, ended_at = NULL, deadline = NULL, error = NULL
WHERE id IN (
    SELECT t.id FROM tasks t
    WHERE t.rule = %(rule)s AND t.version = %(version)s AND t.request->>'kind' = 'similar'
      AND t.state IN ('waiting', 'running', 'suspended', 'done') AND (t.event->>'ts')::bigint >= %(oldest)s
      AND EXISTS (SELECT FROM contexts c WHERE c.rule = t.rule AND c.version = t.version AND NOT c.past
        AND (c.corpus > t.corpus OR (t.corpus IS NULL AND t.state = 'running'))
        AND ((extract(epoch FROM c.ts) * 1000000)::bigint, c.eid) < ((t.event->>'ts')::bigint, t.eid))
    ORDER BY t.id FOR UPDATE OF t)

-- tasks --
-- Recalls, newest first.
SELECT t.id, t.eid, t.rule, t.recall, t.state, t.level, t.tickets, jsonb_array_length(t.pieces) AS pieces, t.next AS read,
    t.failed, t.skipped, t.revision, t.rows, t.results, t.seconds, t.error, t.event, t.created_at, t.started_at,
    t.first_at, t.deadline, t.ended_at
FROM tasks t
WHERE (%(eid)s::uuid IS NULL OR t.eid = %(eid)s::uuid)
  AND (%(rule)s::text IS NULL OR t.rule = %(rule)s OR t.rule LIKE '%%/' || %(rule)s)
  AND (%(states)s::text[] IS NULL OR t.state = ANY(%(states)s))
ORDER BY t.created_at DESC, t.recall LIMIT %(limit)s

-- to_repeat --
-- What the last answers of an event's recalls were computed from (or of one recall, by its id).
SELECT t.id, t.eid, t.rule, t.version, t.recall, t.request, t.event, t.pieces, t.corpus, t.seen, t.started_at, r.number,
    r.coverage, r.answer
FROM tasks t JOIN LATERAL (SELECT * FROM revisions r WHERE r.task = t.id ORDER BY number DESC LIMIT 1) r ON true
WHERE t.eid = %(id)s OR t.id = %(id)s ORDER BY t.recall, t.created_at

-- gone_since --
-- Chunks that have expired and whose rows were there at a moment.
SELECT c.id, (extract(epoch FROM c.from_ts) * 1000000)::bigint AS from_ts,
    (extract(epoch FROM c.to_ts) * 1000000)::bigint AS to_ts, c.expired_at
FROM chunks c LEFT JOIN preparations p ON p.chunk = c.id AND p.name = 'forget'
WHERE c.state = 'expired' AND coalesce(p.done_at > %(moment)s, true) ORDER BY c.id

-- context_since --
-- When the context of an event was computed again, if that was after a moment.
SELECT at FROM contexts WHERE rule = %(rule)s AND version = %(version)s AND eid = %(eid)s AND at > %(moment)s

-- relations_since --
-- Which relations have got other rows for an event time, after a moment, and when that was last.
SELECT relation, max(at) AS at FROM relation_versions
WHERE relation = ANY(%(relations)s) AND valid_from <= %(ts)s AND at > %(moment)s GROUP BY relation ORDER BY relation

-- revisions --
-- The answers of a task, oldest first, after a number.
SELECT number, final, coverage, answer, estimates, at FROM revisions WHERE task = %(task)s AND number > %(after)s ORDER BY number

-- answers --
-- The last answer of each recall of an event.
SELECT DISTINCT ON (t.recall) t.id AS task, t.rule, t.version, t.recall, t.state, t.request, t.error, r.number, r.final,
    r.coverage || jsonb_build_object('changed', changed_since_read(t)) AS coverage, r.answer, r.estimates, r.comparable,
    r.at
FROM tasks t LEFT JOIN revisions r ON r.task = t.id WHERE t.eid = %(eid)s
ORDER BY t.recall, t.created_at DESC, r.number DESC NULLS LAST

-- export_recalls --
-- The last answer of each task, oldest event first.
SELECT t.id, t.eid, t.rule, t.recall, t.state, r.number AS revision, coalesce(r.final, false) AS final,
    r.coverage || jsonb_build_object('changed', changed_since_read(t)) AS coverage, r.answer, r.estimates,
    t.event->'key' AS key, t.error, t.request->>'sql' AS sql
FROM tasks t LEFT JOIN LATERAL (SELECT * FROM revisions r WHERE r.task = t.id ORDER BY number DESC LIMIT 1) r ON true
ORDER BY (t.event->>'ts')::bigint, t.eid, t.recall

-- export_similar --
-- The last similarity answers as rows.
SELECT t.eid AS query, (hit->>'rank')::int AS rank, hit->>'past_eid' AS event, (hit->>'score')::float8 AS score
FROM tasks t
CROSS JOIN LATERAL (SELECT answer FROM revisions r WHERE r.task = t.id ORDER BY number DESC LIMIT 1) r
CROSS JOIN LATERAL jsonb_array_elements(r.answer) hit
WHERE t.request->>'kind' = 'similar' AND (%(recall)s::text IS NULL OR t.recall = %(recall)s)
ORDER BY (t.event->>'ts')::bigint, t.eid, t.recall, rank

-- counts --
-- How many tasks stand in each state.
SELECT state, count(*) AS n FROM tasks GROUP BY state

-- deferred --
-- Tasks that wait for their turn: how many, how many of them with an answer, and for how long, in seconds.
SELECT count(*) AS waiting, count(*) FILTER (WHERE revision > 0) AS with_answer,
    coalesce(extract(epoch FROM clock_timestamp() - min(created_at)), 0)::float8 AS longest
FROM tasks WHERE state = 'waiting' AND level = 0

-- open --
-- How many tasks are not ended, and how many alerts wait for their condition.
SELECT (SELECT count(*) FROM tasks WHERE state IN ('waiting', 'running'))
     + (SELECT count(*) FROM tasks t JOIN alerts a ON a.rule = t.rule AND a.eid = t.eid AND a.verdict IS NULL AND a.state <> 'withdrawn'
        WHERE t.request->>'where' IS NOT NULL AND t.state IN ('done', 'finalized', 'failed'))

-- first_answers --
-- From the row of the alert to the first answer of each of its recalls, in milliseconds.
SELECT count(*) AS answers,
       percentile_cont(0.5) WITHIN GROUP (ORDER BY extract(epoch FROM t.first_at - a.raised_at) * 1000)::float8 AS p50,
       percentile_cont(0.99) WITHIN GROUP (ORDER BY extract(epoch FROM t.first_at - a.raised_at) * 1000)::float8 AS p99
FROM tasks t JOIN alerts a ON a.eid = t.eid AND a.rule = t.rule
WHERE t.first_at IS NOT NULL AND a.raised_at >= %(since)s

-- unjudged --
-- Some ended tasks with a condition whose alert has no verdict yet, and that can be judged: no recall of the event goes
-- on, and those that the condition names are there, or will not come since the version is not live any more.
SELECT t.id, t.eid, t.rule, t.version, t.recall, t.request, t.event, t.level, t.tickets, t.pieces, t.corpus, t.next,
    t.failed, t.skipped, t.held, t.revision, t.tries, t.fence, t.created_at
FROM tasks t JOIN alerts a ON a.rule = t.rule AND a.eid = t.eid AND a.verdict IS NULL
WHERE t.request->>'where' IS NOT NULL AND t.state NOT IN ('waiting', 'running', 'suspended', 'cancelled')
  AND a.state <> 'withdrawn'
  AND NOT EXISTS (SELECT FROM tasks o WHERE o.eid = t.eid AND o.state IN ('waiting', 'running', 'suspended'))
  AND (NOT EXISTS (SELECT FROM jsonb_object_keys(t.request->'judged') AS named WHERE NOT EXISTS (
        SELECT FROM tasks o WHERE o.eid = t.eid AND o.rule = t.rule AND o.version = t.version AND o.recall = named))
    OR NOT EXISTS (SELECT FROM deployments d
        WHERE d.rule = t.rule AND d.version = t.version AND d.state <> 'stopped'))
ORDER BY t.ended_at LIMIT %(limit)s

-- verdict --
-- What history says of an alert.
UPDATE alerts SET verdict = %(verdict)s, updated_at = clock_timestamp()
WHERE rule = %(rule)s AND eid = %(eid)s AND verdict IS DISTINCT FROM %(verdict)s

-- live_silent --
-- Seconds since the live process gave a sign of life; no row where none runs.
SELECT extract(epoch FROM clock_timestamp() - beat_at)::float8 FROM processes
WHERE role = 'live' AND state IN ('running', 'draining') AND beat_at > clock_timestamp() - interval '1 minute'
