-- add --
-- Add to the figures of the current half minute.
INSERT INTO flows (kind, name, since, rows, results, seconds, bytes)
SELECT kind, name, date_bin('30 seconds', statement_timestamp(), 'epoch'), sum(rows), sum(results),
    sum(seconds), max(bytes)
FROM json_to_recordset(%(rows)s::json)
    AS r (kind text, name text, rows bigint, results bigint, seconds double precision, bytes bigint)
GROUP BY kind, name  -- a turn may read for several events of a recall
ORDER BY kind, name
ON CONFLICT (kind, name, since) DO UPDATE
    SET rows = flows.rows + excluded.rows, results = flows.results + excluded.results,
        seconds = flows.seconds + excluded.seconds, bytes = excluded.bytes

-- delete_old --
-- Delete what is older than the window of `list_recent`.
DELETE FROM flows WHERE since < clock_timestamp() - interval '7 minutes'

-- list_recent --
-- The sums of the last five minutes, to half a minute; `bytes`: the last known.
SELECT kind, name, sum(rows)::bigint AS rows, sum(results)::bigint AS results, sum(seconds) AS seconds,
    ((array_agg(bytes ORDER BY since DESC))[1])::bigint AS bytes
FROM flows WHERE since >= date_bin('30 seconds', clock_timestamp(), 'epoch') - interval '5 minutes'
GROUP BY kind, name

-- get_span --
-- The seconds over which `list_recent` has measured: less than five minutes after the start of the live process.
SELECT greatest(1, extract(epoch FROM clock_timestamp() - greatest(
    date_bin('30 seconds', clock_timestamp(), 'epoch') - interval '5 minutes',
    (SELECT started_at FROM processes WHERE role = 'live'))))::double precision

-- list_open_recalls --
-- The recalls that have not ended, and the seconds since the oldest of them was requested.
SELECT rule || '/' || recall AS name, count(*) AS tasks,
    extract(epoch FROM clock_timestamp() - min(created_at))::double precision AS oldest
FROM tasks WHERE state IN ('waiting', 'running') AND rule LIKE '%%/%%' GROUP BY 1

-- list_settled --
-- By rule, the event time up to which it is settled, in microseconds.
SELECT rule, (extract(epoch FROM settled_to) * 1000000)::bigint FROM deployments
WHERE state <> 'stopped' AND settled_to IS NOT NULL

-- list_newest --
-- By stream, its newest event time, in microseconds.
SELECT name, (extract(epoch FROM newest) * 1000000)::bigint FROM streams WHERE newest IS NOT NULL
