-- add --
-- Store a back-test that is to be run.
INSERT INTO backtests (id, author, request) VALUES (%(id)s, %(author)s, %(request)s)

-- delete_old --
-- Delete back-tests that ended long ago.
DELETE FROM backtests
WHERE ended_at < clock_timestamp() - make_interval(secs => %(min_age)s::float8)

-- count_open --
-- Back-tests that have not ended.
SELECT count(*) FROM backtests WHERE ended_at IS NULL

-- get --
-- A back-test by its ID, and whether its process shows signs of life.
SELECT id, author, state, progress, result, error, requested_at, started_at, ended_at
FROM backtests WHERE id = %(id)s

-- cancel --
-- Request the end of a back-test. One that no process runs ends at once.
UPDATE backtests SET cancel_requested = true,
    state = CASE WHEN state = 'waiting' THEN 'cancelled' ELSE state END,
    ended_at = CASE WHEN state = 'waiting' THEN clock_timestamp() END
WHERE id = %(id)s AND ended_at IS NULL

-- has_work --
-- Whether a back-test waits, or one runs whose process has ended.
SELECT EXISTS (SELECT FROM backtests WHERE state = 'waiting'
    OR state = 'running' AND seen_at < clock_timestamp() - make_interval(secs => %(lease)s::float8))

-- claim --
-- Take the oldest back-test that waits, or whose process has ended.
UPDATE backtests SET state = 'running', attempts = attempts + 1, seen_at = clock_timestamp(),
    started_at = coalesce(started_at, clock_timestamp())
WHERE id = (
    SELECT id FROM backtests WHERE state = 'waiting'
        OR state = 'running' AND seen_at < clock_timestamp() - make_interval(secs => %(lease)s::float8)
    ORDER BY requested_at LIMIT 1 FOR UPDATE SKIP LOCKED)
RETURNING id, request, attempts

-- beat --
-- Store a sign of life of the process that runs a back-test. Returns whether it is to end.
UPDATE backtests SET seen_at = clock_timestamp()
WHERE id = %(id)s AND attempts = %(attempt)s AND state = 'running'
RETURNING cancel_requested

-- record --
-- Store what a back-test has found so far.
UPDATE backtests SET progress = %(progress)s, result = %(result)s, seen_at = clock_timestamp()
WHERE id = %(id)s AND attempts = %(attempt)s AND state = 'running'

-- finish --
-- End a back-test.
UPDATE backtests SET state = %(state)s, error = %(error)s, ended_at = clock_timestamp()
WHERE id = %(id)s AND attempts = %(attempt)s AND state = 'running'
