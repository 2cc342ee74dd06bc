-- lock --
-- Held by the one process of a role, as long as its connection lives.
SELECT pg_try_advisory_lock(hashtextextended('moirae ' || %(role)s, 0))

-- take --
-- The process takes the next epoch of its role.
INSERT INTO processes (role, epoch, pid, state) VALUES (%(role)s, 1, %(pid)s, 'starting')
ON CONFLICT (role) DO UPDATE SET epoch = processes.epoch + 1, pid = excluded.pid, state = 'starting',
    started_at = clock_timestamp(), beat_at = clock_timestamp(), first_commit_seconds = NULL
RETURNING epoch

-- epoch --
-- Which process of a role may write.
SELECT epoch FROM processes WHERE role = %(role)s

-- beat --
-- The process lives. An error of the one before it stays until this one has started.
UPDATE processes SET beat_at = clock_timestamp(), state = %(state)s,
    first_commit_seconds = coalesce(first_commit_seconds, %(first_commit_seconds)s),
    error = CASE WHEN %(state)s = 'starting' THEN error END,
    failed_at = CASE WHEN %(state)s = 'starting' THEN failed_at END
WHERE role = %(role)s AND epoch = %(epoch)s

-- fail --
-- The process ends with an error.
UPDATE processes SET beat_at = clock_timestamp(), state = 'failed', error = %(error)s, failed_at = clock_timestamp()
WHERE role = %(role)s AND epoch = %(epoch)s

-- processes --
-- All roles, and whether their process still beats.
SELECT role, epoch, pid, started_at, beat_at, state, first_commit_seconds, error, failed_at,
    state NOT IN ('ended', 'failed') AND beat_at > clock_timestamp() - interval '15 seconds' AS alive
FROM processes ORDER BY role
