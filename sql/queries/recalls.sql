-- add --
-- A recall for an event, once. Returns nothing where it is there already.
INSERT INTO tasks (id, eid, rule, version, recall, request, event, level, tickets)
VALUES (%(id)s, %(eid)s, %(rule)s, %(version)s, %(recall)s, %(request)s, %(event)s, %(level)s, %(tickets)s)
ON CONFLICT (id) DO NOTHING

-- claim --
-- Take tasks that nobody works on, or whose process has given no sign; those of dead processes at once.
UPDATE tasks SET state = 'running', lease = %(lease)s, lease_until = clock_timestamp() + %(length)s,
    started_at = coalesce(started_at, clock_timestamp())
WHERE id IN (
    SELECT id FROM tasks
    WHERE level = %(level)s
        AND (state = 'waiting' OR (state = 'running' AND (lease <> %(lease)s OR lease_until < clock_timestamp())))
    ORDER BY created_at, id LIMIT %(limit)s FOR UPDATE SKIP LOCKED)
RETURNING id, eid, rule, version, recall, request, event, level, tickets, pieces, corpus, next, failed, held, revision,
    tries, created_at

-- renew --
-- The process still works on its tasks. Returns those that are still its own.
UPDATE tasks SET lease_until = clock_timestamp() + %(length)s
WHERE lease = %(lease)s AND state = 'running' RETURNING id

-- pin --
-- What the task will read, fixed at its first history query.
UPDATE tasks SET pieces = %(pieces)s, corpus = %(corpus)s WHERE id = %(id)s AND lease = %(lease)s

-- charge --
-- A process falls over the next piece of some tasks, or over the condition of an ended one.
UPDATE tasks SET tries = tries + 1
WHERE id = ANY(%(ids)s) AND (lease = %(lease)s OR state NOT IN ('waiting', 'running'))

-- release --
-- The process ends: what it has begun goes on in the next.
UPDATE tasks SET state = 'waiting', lease = NULL WHERE lease = %(lease)s AND state = 'running'

-- advance --
-- A piece of history is in: its result and the cursor move together, so that it counts once.
UPDATE tasks SET next = %(next)s, failed = %(failed)s, held = %(held)s, rows = rows + %(rows)s,
    seconds = seconds + %(seconds)s, tries = 0, revision = %(revision)s, state = %(state)s, error = %(error)s,
    first_at = CASE WHEN %(revision)s > 0 THEN coalesce(first_at, clock_timestamp()) END,
    ended_at = CASE WHEN %(state)s <> 'running' THEN clock_timestamp() END
WHERE id = %(id)s AND lease = %(lease)s AND state = 'running' AND next = %(before)s
RETURNING id

-- put_revision --
-- A numbered answer.
INSERT INTO revisions (task, number, final, coverage, answer)
VALUES (%(task)s, %(number)s, %(final)s, %(coverage)s, %(answer)s)

-- open_commands --
-- What is asked and not done.
SELECT id, command, eid FROM commands WHERE done_at IS NULL ORDER BY id

-- command --
-- Ask for something; the recall process does it within one piece of history.
INSERT INTO commands (command, eid, author) VALUES (%(command)s, %(eid)s, %(author)s) RETURNING id

-- command_done --
-- A command was carried out.
UPDATE commands SET done_at = clock_timestamp(), effect = %(effect)s WHERE id = %(id)s

-- command_effect --
-- What a command has done; NULL while it waits.
SELECT effect FROM commands WHERE id = %(id)s

-- end_by_command --
-- End all tasks of an event that go on.
UPDATE tasks SET state = %(state)s, ended_at = clock_timestamp(), held = NULL
WHERE eid = %(eid)s AND state IN ('waiting', 'running') RETURNING id

-- finalize --
-- End all tasks of an event that go on; returns their last answers, NULL where there is none.
WITH ended AS (
    UPDATE tasks SET state = 'finalized', ended_at = clock_timestamp(), held = NULL,
        revision = revision + CASE WHEN revision > 0 THEN 1 ELSE 0 END
    WHERE eid = %(eid)s AND state IN ('waiting', 'running') RETURNING id)
SELECT e.id, r.number, r.coverage, r.answer
FROM ended e LEFT JOIN LATERAL (SELECT * FROM revisions r WHERE r.task = e.id ORDER BY number DESC LIMIT 1) r ON true

-- discard --
-- The answers of an event's cancelled tasks are gone.
DELETE FROM revisions WHERE task IN (SELECT id FROM tasks WHERE eid = %(eid)s AND state = 'cancelled')

-- accelerate --
-- More tickets for all tasks of an event that go on, and the first level.
UPDATE tasks SET tickets = least(tickets * %(factor)s, %(most)s), level = 0
WHERE eid = %(eid)s AND state IN ('waiting', 'running') RETURNING id

-- again --
-- The event's context has changed: its similarity recalls begin again, their revisions go on.
UPDATE tasks SET state = 'waiting', pieces = NULL, corpus = NULL, next = 0, failed = 0, held = NULL, lease = NULL,
    ended_at = NULL, error = NULL
WHERE eid = %(eid)s AND version = %(version)s AND request->>'kind' = 'similar' AND state IN ('waiting', 'running', 'done')

-- again_where_incomplete --
-- Events have entered a corpus: similarity recalls about later events that were compared without them begin again.
UPDATE tasks t SET state = 'waiting', pieces = NULL, corpus = NULL, next = 0, failed = 0, held = NULL, lease = NULL,
    ended_at = NULL, error = NULL
WHERE t.rule = %(rule)s AND t.version = %(version)s AND t.request->>'kind' = 'similar'
  AND t.state IN ('waiting', 'running', 'done') AND (t.event->>'ts')::bigint >= %(oldest)s
  AND EXISTS (SELECT FROM contexts c WHERE c.rule = t.rule AND c.version = t.version
    AND (c.corpus > t.corpus OR (t.corpus IS NULL AND t.state = 'running'))
    AND ((extract(epoch FROM c.ts) * 1000000)::bigint, c.eid) < ((t.event->>'ts')::bigint, t.eid))

-- tasks --
-- Recalls, newest first.
SELECT t.id, t.eid, t.rule, t.recall, t.state, t.level, t.tickets, jsonb_array_length(t.pieces) AS pieces, t.next AS read,
    t.failed, t.revision, t.rows, t.seconds, t.error, t.event, t.created_at, t.started_at, t.first_at, t.ended_at
FROM tasks t
WHERE (%(eid)s::text IS NULL OR t.eid::text LIKE %(eid)s || '%%' OR t.id::text LIKE %(eid)s || '%%')
  AND (%(rule)s::text IS NULL OR t.rule = %(rule)s OR t.rule LIKE '%%/' || %(rule)s)
  AND (%(states)s::text[] IS NULL OR t.state = ANY(%(states)s))
ORDER BY t.created_at DESC, t.recall LIMIT %(limit)s

-- revisions --
-- The answers of a task, oldest first, after a number.
SELECT number, final, coverage, answer, at FROM revisions WHERE task = %(task)s AND number > %(after)s ORDER BY number

-- answers --
-- The last answer of each recall of an event.
SELECT DISTINCT ON (t.recall) t.id AS task, t.rule, t.version, t.recall, t.state, t.request, t.error, r.number, r.final,
    r.coverage, r.answer, r.at
FROM tasks t LEFT JOIN revisions r ON r.task = t.id WHERE t.eid = %(eid)s
ORDER BY t.recall, t.created_at DESC, r.number DESC NULLS LAST

-- export_recalls --
-- The last answer of each task, oldest event first.
SELECT t.id, t.eid, t.rule, t.recall, t.state, r.number AS revision, coalesce(r.final, false) AS final, r.coverage,
    r.answer, t.event->'key' AS key, t.error
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

-- open --
-- How many tasks are not ended, and how many alerts wait for their condition.
SELECT (SELECT count(*) FROM tasks WHERE state IN ('waiting', 'running'))
     + (SELECT count(*) FROM tasks t JOIN alerts a ON a.rule = t.rule AND a.eid = t.eid AND a.verdict IS NULL
        WHERE t.request->>'where' IS NOT NULL AND t.state IN ('done', 'finalized', 'failed'))

-- first_answers --
-- From the row of the alert to the first answer of each of its recalls, in milliseconds.
SELECT count(*) AS answers,
       percentile_cont(0.5) WITHIN GROUP (ORDER BY extract(epoch FROM t.first_at - a.raised_at) * 1000)::float8 AS p50,
       percentile_cont(0.99) WITHIN GROUP (ORDER BY extract(epoch FROM t.first_at - a.raised_at) * 1000)::float8 AS p99
FROM tasks t JOIN alerts a ON a.eid = t.eid AND a.rule = t.rule
WHERE t.first_at IS NOT NULL AND a.raised_at >= %(since)s

-- unjudged --
-- Ended tasks with a condition whose alert has no verdict yet.
SELECT t.id, t.eid, t.rule, t.version, t.recall, t.request, t.event, t.level, t.tickets, t.pieces, t.corpus, t.next,
    t.failed, t.held, t.revision, t.tries, t.created_at
FROM tasks t JOIN alerts a ON a.rule = t.rule AND a.eid = t.eid AND a.verdict IS NULL
WHERE t.request->>'where' IS NOT NULL AND t.state NOT IN ('waiting', 'running', 'cancelled')

-- verdict --
-- What history says of an alert.
UPDATE alerts SET verdict = %(verdict)s, updated_at = clock_timestamp()
WHERE rule = %(rule)s AND eid = %(eid)s AND verdict IS DISTINCT FROM %(verdict)s
