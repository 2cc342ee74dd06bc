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
-- The process lives.
UPDATE processes SET beat_at = clock_timestamp(), state = %(state)s,
    first_commit_seconds = coalesce(first_commit_seconds, %(first_commit_seconds)s)
WHERE role = %(role)s AND epoch = %(epoch)s

-- processes --
-- All roles, and whether their process still beats.
SELECT role, epoch, pid, started_at, beat_at, state, first_commit_seconds,
    state NOT IN ('ended') AND beat_at > clock_timestamp() - interval '15 seconds' AS alive
FROM processes ORDER BY role
