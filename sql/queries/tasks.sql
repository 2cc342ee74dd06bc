-- add --
-- Create a task, unless it exists.
INSERT INTO tasks (id, eid, rule, version, recall, request, event, level, tickets)
VALUES (%(id)s, %(eid)s, %(rule)s, %(version)s, %(recall)s, %(request)s, %(event)s, %(level)s, %(tickets)s)
ON CONFLICT (id) DO NOTHING

-- acquire_lease --
-- A lease number, and its advisory lock, which the session holds as long as it lives.
WITH new_lease AS (SELECT nextval('leases')::integer AS lease)
SELECT lease, pg_advisory_lock(hashtext('moirae leases'), lease) FROM new_lease

-- limit_idle_transactions --
-- End the session, with its locks, if it stays idle in a transaction; earlier than the lease expires.
SET idle_in_transaction_session_timeout = '20s'

-- reclaim_abandoned --
-- Put the tasks of processes that are dead, or that have not renewed their lease, back into the queue. A task
-- whose query was running counts a failed attempt. Their events may be held by any process again.
WITH abandoned AS MATERIALIZED (
    SELECT id, rule, version, eid, lease FROM tasks
    WHERE state = 'running' AND (lease_until < clock_timestamp() OR lease NOT IN (
        SELECT objid::bigint FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 2 AND granted
            AND classid = (hashtext('moirae leases')::bigint & 4294967295)::oid
            AND database = (SELECT oid FROM pg_database WHERE datname = current_database())))
    FOR UPDATE SKIP LOCKED),
released AS (
    UPDATE recalled_events h SET lease = NULL FROM abandoned a
    WHERE h.rule = a.rule AND h.version = a.version AND h.eid = a.eid AND h.lease = a.lease)
UPDATE tasks SET state = 'waiting', lease = NULL, tries = tries + (asked_at IS NOT NULL)::integer,
    error = CASE WHEN asked_at IS NULL THEN error ELSE 'the recall process ended while a query ran' END, asked_at = NULL
WHERE id IN (SELECT id FROM abandoned)

-- claim --
-- Claim waiting tasks of a level: those without an answer first, a limited number of each rule. Of an event with stages
-- or a condition one process holds all tasks until its session ends: the one that updates the event first.
WITH live AS MATERIALIZED (
    SELECT objid::bigint AS lease FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 2 AND granted
        AND classid = (hashtext('moirae leases')::bigint & 4294967295)::oid
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())),
free AS MATERIALIZED (
    SELECT t.id, t.rule, t.version, t.eid
    FROM (SELECT DISTINCT rule FROM tasks WHERE level = %(level)s AND state = 'waiting') r
    CROSS JOIN LATERAL (
        SELECT id, w.rule, version, eid, revision > 0 AS answered, created_at FROM tasks w
        WHERE level = %(level)s AND state = 'waiting' AND (retry_at IS NULL OR retry_at <= clock_timestamp()) AND w.rule = r.rule AND w.rule <> ALL(%(full_rules)s)
          AND NOT EXISTS (SELECT FROM recalled_events h WHERE h.rule = w.rule AND h.version = w.version AND h.eid = w.eid
              AND h.has_stages AND h.lease <> %(lease)s AND h.lease IN (SELECT lease FROM live))
        ORDER BY revision > 0, created_at, id LIMIT %(per_rule_limit)s FOR UPDATE OF w SKIP LOCKED) t
    ORDER BY t.answered, t.created_at, t.id LIMIT %(limit)s),
taken AS (
    UPDATE recalled_events h SET lease = %(lease)s
    WHERE (h.rule, h.version, h.eid) IN (SELECT rule, version, eid FROM free) AND h.has_stages
      AND (h.lease IS NULL OR h.lease = %(lease)s OR h.lease NOT IN (SELECT lease FROM live))
    RETURNING h.rule, h.version, h.eid)
UPDATE tasks SET state = 'running', lease = %(lease)s, lease_until = clock_timestamp() + %(duration)s, fence = fence + 1,
    started_at = coalesce(started_at, clock_timestamp()), unasked_since = coalesce(unasked_since, clock_timestamp()),
    asked_at = NULL
WHERE id IN (
    SELECT f.id FROM free f LEFT JOIN recalled_events h USING (rule, version, eid)
    WHERE NOT coalesce(h.has_stages, false)
      OR (f.rule, f.version, f.eid) IN (SELECT rule, version, eid FROM taken))
RETURNING id, eid, rule, version, recall, request, event, level, tickets, pieces, corpus, model, next, failed, skipped,
    held AS partial_answer, revision, tries, timeouts, put_offs, error, rows, results, seconds, fence, created_at, live_appends

-- claim_task --
-- Claim one task if it is waiting.
UPDATE tasks SET state = 'running', lease = %(lease)s, lease_until = clock_timestamp() + %(duration)s, fence = fence + 1,
    started_at = coalesce(started_at, clock_timestamp()), unasked_since = coalesce(unasked_since, clock_timestamp()),
    asked_at = NULL
WHERE id IN (SELECT id FROM tasks WHERE id = %(id)s AND state = 'waiting'
    AND (retry_at IS NULL OR retry_at <= clock_timestamp()) FOR UPDATE SKIP LOCKED)
RETURNING id, eid, rule, version, recall, request, event, level, tickets, pieces, corpus, model, next, failed, skipped,
    held AS partial_answer, revision, tries, timeouts, put_offs, error, rows, results, seconds, fence, created_at, live_appends

-- get_claimed --
-- A task as long as it runs under a claim.
SELECT id, eid, rule, version, recall, request, event, level, tickets, pieces, corpus, model, next, failed, skipped,
    held AS partial_answer, revision, tries, timeouts, put_offs, error, rows, results, seconds, fence, created_at, live_appends
FROM tasks WHERE id = %(id)s AND fence = %(fence)s AND state = 'running'

-- fail_unreadable --
-- Fail a claimed task whose stored request this version cannot parse.
UPDATE tasks SET state = 'failed', error = %(error)s, held = NULL, ended_at = clock_timestamp()
WHERE id = %(id)s AND fence = %(fence)s AND state = 'running'

-- has_unanswered --
-- Whether interactive tasks without an answer are waiting.
SELECT EXISTS (SELECT FROM tasks WHERE level = 0 AND state = 'waiting' AND revision = 0
    AND (retry_at IS NULL OR retry_at <= clock_timestamp()))

-- defer --
-- Put claimed tasks back into the queue.
UPDATE tasks SET state = 'waiting', lease = NULL WHERE id = ANY(%(ids)s) AND lease = %(lease)s AND state = 'running'

-- count_exceeded --
-- How many tasks of a recall exceeded a limit in the last hour, since one of them was answered.
SELECT count(*) FROM tasks
WHERE rule = %(rule)s AND version = %(version)s AND recall = %(recall)s AND exceeded
  AND ended_at > clock_timestamp() - interval '1 hour' AND ended_at > coalesce((
    SELECT max(ended_at) FROM tasks
    WHERE rule = %(rule)s AND version = %(version)s AND recall = %(recall)s AND state = 'done'), '-infinity')

-- renew_lease --
-- Extend the lease of all tasks of a process.
UPDATE tasks SET lease_until = clock_timestamp() + %(duration)s WHERE id IN (
    SELECT id FROM tasks WHERE lease = %(lease)s AND state = 'running' ORDER BY id FOR UPDATE)

-- list_claimed --
-- The tasks that a process has claimed.
SELECT id, fence, level, tickets FROM tasks WHERE lease = %(lease)s AND state = 'running'

-- list_pinned_chunks --
-- Chunks that open tasks may still read.
SELECT DISTINCT (piece->>0)::integer FROM tasks, jsonb_array_elements(pieces) AS piece
WHERE state IN ('waiting', 'running', 'suspended')

-- pin_pieces --
-- Store what a task reads, before or when its first history query starts. The commit of its answer makes this durable
-- as well: it does not wait for the disk by itself.
UPDATE tasks SET pieces = %(pieces)s, skipped = %(skipped)s, next = %(skipped)s, corpus = %(corpus)s,
    model = %(model)s, asked_at = CASE WHEN %(started)s THEN clock_timestamp() END
WHERE id = %(id)s AND fence = %(fence)s AND state = 'running'
  AND set_config('synchronous_commit', 'off', true) = 'off'

-- list_reads --
-- What the queries of a task have read: first piece, end of the pieces, appends by stream.
SELECT seen FROM tasks WHERE id = %(id)s

-- mark_query_started --
-- Store that a query for the next piece of some tasks has started, without waiting for the disk: after a
-- crash of the database it may not have been.
UPDATE tasks SET asked_at = clock_timestamp() WHERE id IN (
    SELECT id FROM tasks WHERE id = ANY(%(ids)s) AND lease = %(lease)s AND state = 'running' ORDER BY id FOR UPDATE)
  AND set_config('synchronous_commit', 'off', true) = 'off'

-- count_failed_attempt --
-- Count a failed attempt at the next piece of some tasks, or at the condition of ended ones.
UPDATE tasks SET tries = tries + 1, timeouts = timeouts + %(timed_out)s::integer, asked_at = NULL,
    error = CASE state WHEN 'running' THEN %(error)s ELSE error END
WHERE id IN (
    SELECT id FROM tasks WHERE id = ANY(%(ids)s) AND (lease = %(lease)s OR state NOT IN ('waiting', 'running'))
    ORDER BY id FOR UPDATE)

-- put_off --
-- Let a task wait for another attempt at its next piece until a later time.
UPDATE tasks SET state = 'waiting', lease = NULL, asked_at = NULL, tries = tries - 1, timeouts = timeouts - 1,
    put_offs = put_offs + 1, retry_at = clock_timestamp() + %(delay)s
WHERE id = %(id)s AND fence = %(fence)s AND state = 'running'

-- add_delay --
-- Add seconds in which a query of some tasks could not work.
UPDATE tasks SET delayed = delayed + %(seconds)s WHERE id IN (
    SELECT id FROM tasks WHERE id = ANY(%(ids)s) AND lease = %(lease)s ORDER BY id FOR UPDATE)

-- release_all --
-- Put all tasks of a process back into the queue.
UPDATE tasks SET state = 'waiting', lease = NULL, asked_at = NULL WHERE id IN (
    SELECT id FROM tasks WHERE lease = %(lease)s AND state = 'running' ORDER BY id FOR UPDATE)

-- advance --
-- Store the result of a turn: cursor and partial answer move together, so that a piece counts once. The task loses
-- tickets for its results, and is suspended when it has continued without feedback for as long as its rule says.
UPDATE tasks SET next = %(next)s, failed = %(failed)s, seen = seen || %(reads)s, held = %(partial_answer)s, rows = rows + %(rows)s,
    results = results + %(results)s, tickets = greatest(1, tickets - %(price)s),
    seconds = seconds + %(seconds)s, tries = 0, timeouts = 0, put_offs = 0, retry_at = NULL, progressed_at = clock_timestamp(), asked_at = NULL, exceeded = %(exceeded)s, revision = %(revision)s, error = %(error)s,
    first_at = CASE WHEN %(revision)s > 0 THEN coalesce(first_at, clock_timestamp()) END,
    ended_at = CASE WHEN %(state)s <> 'running' THEN clock_timestamp() END,
    live_appends = coalesce(%(live_appends)s, live_appends),
    state = CASE WHEN d.feedback_overdue AND %(state)s = 'running' THEN 'suspended' ELSE %(state)s END,
    deadline = CASE WHEN d.feedback_overdue AND %(state)s = 'running' THEN clock_timestamp() + %(feedback_timeout)s END
FROM (SELECT id, clock_timestamp() >= unasked_since + make_interval(secs => (request->>'feedback')::float8) AS feedback_overdue
      FROM tasks WHERE id = %(id)s) d
WHERE tasks.id = d.id AND fence = %(fence)s AND state = 'running' AND next = %(expected_next)s
RETURNING state, tickets

-- add_revision --
-- Store an answer of a task under its number.
INSERT INTO revisions (task, number, final, coverage, answer, estimates, comparable, match, forecast)
VALUES (%(task)s, %(number)s, %(final)s, %(coverage)s, %(answer)s, %(estimates)s, %(comparable)s, %(match)s,
    %(forecast)s)

-- lock --
-- Lock tasks that are changed together, in the order that all transactions use.
SELECT id FROM tasks WHERE id = ANY(%(ids)s) ORDER BY id FOR UPDATE

-- lock_matching --
-- Lock the open tasks that match all criteria that are not NULL.
SELECT id FROM tasks WHERE state IN ('waiting', 'running', 'suspended')
  AND (%(eid)s::uuid IS NULL OR eid = %(eid)s::uuid)
  AND (%(task)s::uuid IS NULL OR id = %(task)s::uuid)
  AND (%(rule)s::text IS NULL OR rule = %(rule)s OR rule LIKE '%%/' || %(rule)s)
  AND (%(before)s::timestamptz IS NULL OR created_at < %(before)s::timestamptz)
ORDER BY id FOR UPDATE

-- lock_without_feedback --
-- Lock the open tasks of events whose feedback deadline has passed; with `all`, of all events with suspended tasks.
SELECT id FROM tasks WHERE state IN ('waiting', 'running', 'suspended') AND eid IN (
    SELECT eid FROM tasks WHERE state = 'suspended' AND (deadline < clock_timestamp() OR %(all)s))
ORDER BY id FOR UPDATE

-- list_remaining_work --
-- What tasks that wait or run, and the given ones, have left to read; of a task without pieces, all chunks.
SELECT id, level, tickets, state <> 'suspended' AS is_active,
    coalesce(coalesce(piece_count, jsonb_array_length(pieces)) - next, (SELECT count(*)::integer FROM chunks WHERE state <> 'expired')) AS pieces_left,
    next, skipped, rows, results, seconds
FROM tasks WHERE state IN ('waiting', 'running') OR id = ANY(%(ids)s)

-- cancel --
-- End tasks and delete their answers.
WITH gone AS (DELETE FROM revisions WHERE task = ANY(%(ids)s))
UPDATE tasks SET state = 'cancelled', ended_at = clock_timestamp(), held = NULL, deadline = NULL WHERE id = ANY(%(ids)s)
RETURNING rule, version, recall, eid, event

-- finalize --
-- End tasks; returns their last answers, NULL where there is none.
WITH ended AS (
    UPDATE tasks SET state = 'finalized', ended_at = clock_timestamp(), held = NULL, deadline = NULL,
        error = coalesce(%(reason)s, error), revision = revision + CASE WHEN revision > 0 THEN 1 ELSE 0 END
    WHERE id = ANY(%(ids)s) RETURNING id, rule, version, recall, request->>'kind' AS kind)
SELECT e.id, e.rule, e.version, e.recall, e.kind, r.number, r.coverage, r.answer, r.estimates, r.forecast
FROM ended e LEFT JOIN LATERAL (SELECT * FROM revisions r WHERE r.task = e.id ORDER BY number DESC LIMIT 1) r ON true

-- accelerate --
-- Multiply the tickets of tasks and make them interactive. It counts as feedback.
UPDATE tasks SET tickets = least(tickets * %(factor)s, %(maximum)s), level = 0, unasked_since = clock_timestamp(),
    deadline = NULL, retry_at = NULL, state = CASE state WHEN 'suspended' THEN 'waiting' ELSE state END
WHERE id = ANY(%(ids)s)

-- refine --
-- Resume suspended tasks and restart the time without feedback.
UPDATE tasks SET unasked_since = clock_timestamp(), deadline = NULL, retry_at = NULL,
    state = CASE state WHEN 'suspended' THEN 'waiting' ELSE state END
WHERE id = ANY(%(ids)s)

-- restart_settled --
-- Restart the recalls of events that were detected early and are settled now, with their final attributes; revision
-- numbers continue. `attributes`: by event ID.
UPDATE tasks SET event = jsonb_set(event, '{attributes}', %(attributes)s::jsonb -> eid::text), state = 'waiting', pieces = NULL, piece_count = NULL,
    corpus = NULL, model = NULL, next = 0, failed = 0, skipped = 0, held = NULL, lease = NULL, ended_at = NULL, deadline = NULL,
    error = NULL, asked_at = NULL, tries = 0, timeouts = 0, put_offs = 0, retry_at = NULL, seen = '[]'
WHERE id IN (
    SELECT id FROM tasks WHERE eid = ANY(%(eids)s) AND rule = %(rule)s AND version = %(version)s
      AND state IN ('waiting', 'running', 'suspended', 'done')
    ORDER BY id FOR UPDATE)

-- settle_recalled_events --
-- Evaluate stages and conditions with the final attributes of events.
UPDATE recalled_events SET event = jsonb_set(event, '{attributes}', %(attributes)s::jsonb -> eid::text)
WHERE rule = %(rule)s AND version = %(version)s AND eid = ANY(%(eids)s) AND ended_at IS NULL

-- lock_of_events --
-- Lock the open and the answered tasks of events.
SELECT id FROM tasks WHERE eid = ANY(%(eids)s) AND rule = %(rule)s AND version = %(version)s
  AND state IN ('waiting', 'running', 'suspended', 'done') ORDER BY id FOR UPDATE

-- restart_readers --
-- Restart the recalls of events that have read contexts or surroundings which have changed: similarity recalls if a
-- context has, SQL recalls if one that they name has. Revision numbers continue.
UPDATE tasks SET state = 'waiting', pieces = NULL, piece_count = NULL, corpus = NULL, model = NULL, next = 0, failed = 0,
    skipped = 0, held = NULL, lease = NULL, ended_at = NULL, deadline = NULL, error = NULL, asked_at = NULL, tries = 0, timeouts = 0, put_offs = 0, retry_at = NULL,
    seen = '[]'
WHERE id IN (
    SELECT t.id FROM tasks t
    JOIN jsonb_to_recordset(%(changed)s::jsonb) AS c (eid uuid, version text, contexts jsonb, surroundings jsonb)
      ON c.eid = t.eid AND c.version = t.version
    WHERE CASE t.request->>'kind' WHEN 'similar' THEN c.contexts <> '[]'
            ELSE EXISTS (SELECT FROM jsonb_object_keys(coalesce(t.request->'own', '{}')) AS name
                WHERE (c.contexts || c.surroundings) ? name) END
      AND t.state IN ('waiting', 'running', 'suspended', 'done')
      AND NOT EXISTS (SELECT FROM recalled_events r WHERE r.rule = t.rule AND r.version = t.version
        AND r.eid = t.eid AND r.ended_at IS NOT NULL)
    ORDER BY t.id FOR UPDATE OF t)

-- restart_answered --
-- Restart recalls that have an answer, unless their event has its boundary. Revision numbers continue.
UPDATE tasks SET state = 'waiting', pieces = NULL, piece_count = NULL, corpus = NULL, model = NULL, next = 0, failed = 0,
    skipped = 0, held = NULL, lease = NULL, ended_at = NULL, deadline = NULL, error = NULL, asked_at = NULL, tries = 0, timeouts = 0, put_offs = 0, retry_at = NULL,
    seen = '[]'
WHERE id IN (
    SELECT t.id FROM tasks t
    WHERE t.id = ANY(%(ids)s) AND t.state = 'done'
      AND NOT EXISTS (SELECT FROM recalled_events r WHERE r.rule = t.rule AND r.version = t.version
        AND r.eid = t.eid AND r.ended_at IS NOT NULL)
    ORDER BY t.id FOR UPDATE OF t)

-- restart_incomplete_comparisons --
-- Restart similarity recalls that were computed before events entered the corpus that they should have compared.
UPDATE tasks SET state = 'waiting', pieces = NULL, piece_count = NULL, corpus = NULL, model = NULL, next = 0, failed = 0,
    skipped = 0, held = NULL, lease = NULL, ended_at = NULL, deadline = NULL, error = NULL
WHERE id IN (
    SELECT t.id FROM tasks t
    WHERE t.rule = %(rule)s AND t.version = %(version)s AND t.request->>'kind' = 'similar'
      AND t.state IN ('waiting', 'running', 'suspended', 'done') AND (t.event->>'ts')::bigint >= %(oldest)s
      AND NOT EXISTS (SELECT FROM recalled_events r WHERE r.rule = t.rule AND r.version = t.version AND r.eid = t.eid
        AND r.ended_at IS NOT NULL)
      AND EXISTS (SELECT FROM contexts c WHERE c.rule = t.rule AND c.version = t.version AND NOT c.past
        AND (c.corpus > t.corpus OR (t.corpus IS NULL AND t.state = 'running'))
        AND ((extract(epoch FROM c.ts) * 1000000)::bigint, c.eid) < ((t.event->>'ts')::bigint, t.eid))
    ORDER BY t.id FOR UPDATE OF t)

-- rule_exists --
-- Whether a rule, named with or without its group, is deployed or has recalls.
SELECT 1 FROM deployments WHERE rule = %(rule)s OR rule LIKE '%%/' || %(rule)s
UNION ALL (SELECT 1 FROM tasks WHERE rule = %(rule)s OR rule LIKE '%%/' || %(rule)s LIMIT 1)

-- list_newest --
-- Recalls, newest first. `cursor_at`, `cursor_recall`, `cursor_id`: the last recall of the previous page.
SELECT t.id, t.eid, t.rule, t.recall, t.state, t.level, t.tickets,
    coalesce(t.piece_count, jsonb_array_length(t.pieces)) AS pieces, t.next AS read,
    t.failed, t.skipped, t.revision, t.rows, t.results, t.seconds, t.error, t.retry_at, t.delayed, t.event, t.created_at, t.started_at,
    t.first_at, t.deadline, t.ended_at
FROM tasks t
WHERE (%(eid)s::uuid IS NULL OR t.eid = %(eid)s::uuid)
  AND (%(rule)s::text IS NULL OR t.rule = %(rule)s OR t.rule LIKE '%%/' || %(rule)s)
  AND (%(states)s::text[] IS NULL OR t.state = ANY(%(states)s))
  AND (%(id)s::uuid IS NULL OR t.id = %(id)s::uuid)
  AND (%(cursor_at)s::timestamptz IS NULL OR t.created_at < %(cursor_at)s
    OR (t.created_at = %(cursor_at)s AND (t.recall, t.id) > (%(cursor_recall)s::text, %(cursor_id)s::uuid)))
ORDER BY t.created_at DESC, t.recall, t.id LIMIT %(limit)s

-- count_by_state --
-- Number of tasks by state.
SELECT state, count(*) FROM tasks GROUP BY state

-- waiting --
-- Interactive tasks in the queue: how many, how many of them with an answer, and the longest wait in seconds.
SELECT count(*) AS waiting, count(*) FILTER (WHERE revision > 0) AS with_answer,
    coalesce(extract(epoch FROM clock_timestamp() - min(created_at)), 0)::float8 AS longest
FROM tasks WHERE state = 'waiting' AND level = 0 AND (retry_at IS NULL OR retry_at <= clock_timestamp())

-- measured_recalls --
-- What the last 20 ended SQL recalls of a rule have cost, by recall: how many there are, the pieces of each, seconds.
SELECT recall, count(*) AS recalls, sum(next - skipped) AS pieces, array_agg(next - skipped) AS counts, sum(seconds) AS seconds
FROM (SELECT recall, next, skipped, seconds, row_number() OVER (PARTITION BY recall ORDER BY ended_at DESC) AS age
      FROM tasks WHERE rule = %(rule)s AND state = 'done' AND request->>'kind' = 'sql' AND next > skipped) t
WHERE age <= 20 GROUP BY recall

-- count_open --
-- Number of tasks of recalls of rules that have not ended.
SELECT count(*) FROM tasks WHERE state IN ('waiting', 'running') AND rule <> 'query'

-- first_answer_latency --
-- From the alert to the first answer of each of its recalls, in milliseconds.
SELECT count(*) AS answers,
       percentile_cont(0.5) WITHIN GROUP (ORDER BY extract(epoch FROM t.first_at - a.raised_at) * 1000)::float8 AS p50,
       percentile_cont(0.99) WITHIN GROUP (ORDER BY extract(epoch FROM t.first_at - a.raised_at) * 1000)::float8 AS p99
FROM tasks t JOIN alerts a ON a.eid = t.eid AND a.rule = t.rule
WHERE t.first_at IS NOT NULL AND a.raised_at >= %(since)s
