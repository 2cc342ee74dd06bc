-- try_lock --
-- The lock of a role, which its one process holds as long as its connection lives.
SELECT pg_try_advisory_lock(hashtextextended('moirae ' || %(role)s, 0))

-- unlock --
SELECT pg_advisory_unlock(hashtextextended('moirae ' || %(role)s, 0))

-- start --
-- The process of a role starts with the next epoch.
WITH predecessor AS (
    INSERT INTO process_exits (role, epoch, pid, started_at, ended_at, error)
    SELECT role, epoch, pid, started_at, beat_at, CASE WHEN state = 'failed' THEN error END
    FROM processes WHERE role = %(role)s AND state <> 'ended'
    ON CONFLICT (role, epoch) DO NOTHING)
INSERT INTO processes (role, epoch, pid, machine, state) VALUES (%(role)s, 1, %(pid)s, %(machine)s, 'starting')
ON CONFLICT (role) DO UPDATE SET epoch = processes.epoch + 1, pid = excluded.pid, machine = excluded.machine,
    state = 'starting', started_at = clock_timestamp(), beat_at = clock_timestamp(),
    first_commit_seconds = NULL, ingest = NULL, renewals = NULL
RETURNING epoch

-- renew --
-- A process renews the lease of its role, and reads the clock of the database, in Unix seconds; no row
-- if another has the role.
UPDATE processes SET renewals = coalesce(renewals, 0) + 1 WHERE role = %(role)s AND epoch = %(epoch)s
RETURNING extract(epoch FROM clock_timestamp())::double precision AS clock

-- get_holder --
-- The last process of a role and its lease.
SELECT epoch, pid, machine, renewals FROM processes WHERE role = %(role)s

-- end_holder --
-- End the session that has the lock of a role.
SELECT count(pg_terminate_backend(pid)) FROM pg_locks
WHERE locktype = 'advisory' AND granted AND objsubid = 1
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
    AND (classid::bigint << 32) | objid::bigint = hashtextextended('moirae ' || %(role)s, 0)

-- put_waiting --
-- A process waits for a role.
INSERT INTO waiting_processes (role, machine, pid) VALUES (%(role)s, %(machine)s, %(pid)s)
ON CONFLICT (role, machine, pid) DO UPDATE SET beat_at = clock_timestamp()

-- delete_waiting --
-- A process waits no longer; nor do those without a sign of life for an hour.
DELETE FROM waiting_processes WHERE (role, machine, pid) = (%(role)s, %(machine)s, %(pid)s)
    OR beat_at < clock_timestamp() - interval '1 hour'

-- list_waiting --
-- Who waits for a role, the first first.
SELECT role, machine, pid, started_at FROM waiting_processes
WHERE beat_at > clock_timestamp() - interval '15 seconds' ORDER BY role, started_at, machine, pid

-- get_epoch --
-- The epoch of the process that may write.
SELECT epoch FROM processes WHERE role = %(role)s

-- heartbeat --
-- Time and state of a process. An error of the previous process remains until this one has started.
UPDATE processes SET beat_at = clock_timestamp(), state = %(state)s,
    first_commit_seconds = coalesce(first_commit_seconds, %(first_commit_seconds)s),
    ingest = coalesce(%(ingest)s, ingest),
    error = CASE WHEN %(state)s = 'starting' THEN error END,
    failed_at = CASE WHEN %(state)s = 'starting' THEN failed_at END
WHERE role = %(role)s AND epoch = %(epoch)s
RETURNING epoch

-- is_erasing --
-- Whether an erasure runs: no process starts meanwhile.
SELECT NOT pg_try_advisory_xact_lock_shared(hashtextextended('moirae erasure', 0))

-- end_all --
-- Have all processes end that archive, evaluate, recall, notify or back up: they are not those of their
-- roles any more.
UPDATE processes SET epoch = epoch + 1, state = 'ended' WHERE role ~ %(roles)s

-- list_held --
-- The roles that `end_all` ends, of those whose lock a session still has.
SELECT role FROM processes WHERE role ~ %(roles)s
    AND EXISTS (SELECT FROM pg_locks l WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1
        AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
        AND ((l.classid::bigint << 32) | l.objid::bigint) = hashtextextended('moirae ' || role, 0))
ORDER BY role

-- put_declarations --
-- What a process has read of the workspace file.
UPDATE processes SET declarations = %(declarations)s WHERE role = %(role)s AND epoch = %(epoch)s

-- get_live_declarations --
-- What the live process that runs has read of the workspace file; no row if none runs.
SELECT started_at, declarations FROM processes
WHERE role = 'live' AND state IN ('running', 'draining') AND beat_at > clock_timestamp() - interval '1 minute'
    AND declarations IS NOT NULL

-- fail --
-- The error by which a process ends.
UPDATE processes SET beat_at = clock_timestamp(), state = 'failed', error = %(error)s, failed_at = clock_timestamp()
WHERE role = %(role)s AND epoch = %(epoch)s

-- list_all --
-- The last process of each role, and whether it has sent a heartbeat lately.
SELECT role, epoch, pid, machine, started_at, beat_at, state, first_commit_seconds, error, failed_at, ingest,
    state NOT IN ('ended', 'failed') AND beat_at > clock_timestamp() - interval '15 seconds' AS alive
FROM processes ORDER BY role

-- live_heartbeat_age --
-- Seconds since the last heartbeat of the live process; no row if none runs.
SELECT extract(epoch FROM clock_timestamp() - beat_at)::float8 FROM processes
WHERE role = 'live' AND state IN ('running', 'draining') AND beat_at > clock_timestamp() - interval '1 minute'

-- put_metrics --
-- The metrics of the process that has a role.
INSERT INTO process_metrics (role, metrics) SELECT role, %(metrics)s FROM processes
WHERE role = %(role)s AND epoch = %(epoch)s
ON CONFLICT (role) DO UPDATE SET metrics = excluded.metrics, at = clock_timestamp()

-- list_metrics --
-- The metrics of the last process of each role.
SELECT role, metrics FROM process_metrics ORDER BY role
