-- record --
-- Store the end of a process that `moirae up` started; complete what its successor has stored.
WITH ended AS (
    SELECT role, epoch, started_at, CASE WHEN state = 'failed' THEN error END AS error
    FROM processes WHERE pid = %(pid)s AND split_part(role, ' ', 1) = %(role)s
        AND started_at > %(ended_at)s::timestamptz - %(age)s::interval - interval '1 minute'
    UNION ALL
    SELECT role, epoch, started_at, error
    FROM process_exits WHERE pid = %(pid)s AND split_part(role, ' ', 1) = %(role)s
        AND started_at > %(ended_at)s::timestamptz - %(age)s::interval - interval '1 minute'
    ORDER BY started_at DESC LIMIT 1)
INSERT INTO process_exits AS e (role, epoch, pid, started_at, ended_at, exit_code, signal, error)
SELECT coalesce(ended.role, %(role)s), ended.epoch, %(pid)s,
    coalesce(ended.started_at, %(ended_at)s::timestamptz - %(age)s::interval), %(ended_at)s,
    %(exit_code)s, %(signal)s, ended.error
FROM (SELECT) AS one LEFT JOIN ended ON true
ON CONFLICT (role, epoch) DO UPDATE SET ended_at = excluded.ended_at,
    exit_code = excluded.exit_code, signal = excluded.signal, error = coalesce(e.error, excluded.error)

-- fail --
-- The error by which a process ends.
UPDATE processes SET state = 'failed', error = %(error)s, failed_at = clock_timestamp(),
    beat_at = clock_timestamp()
WHERE pid = %(pid)s AND state <> 'ended'

-- mark_stopped --
-- Processes that were killed because they did not stop in time have ended as requested.
UPDATE processes SET state = 'ended' WHERE pid = ANY(%(pids)s) AND state NOT IN ('ended', 'failed')

-- delete_old --
-- Delete the ends of processes of more than 30 days ago, and all but the newest thousand.
DELETE FROM process_exits WHERE ended_at < clock_timestamp() - interval '30 days'
    OR id <= (SELECT max(id) - 1000 FROM process_exits)

-- list_recent --
-- The ends of processes since a time, newest first.
SELECT role, epoch, pid, started_at, ended_at, exit_code, signal, error
FROM process_exits WHERE ended_at >= %(since)s ORDER BY ended_at DESC, id DESC
