-- start --
-- A backup starts.
INSERT INTO backups (destination) VALUES (%(destination)s) RETURNING id

-- finish --
-- A backup is complete.
UPDATE backups SET name = %(name)s, finished_at = clock_timestamp(), taken_at = %(taken_at)s, rows = %(rows)s,
    bytes = %(bytes)s, new_bytes = %(new_bytes)s, error = NULL
WHERE id = %(id)s

-- fail --
-- Why a backup ended before it was complete.
UPDATE backups SET error = %(error)s WHERE id = %(id)s

-- get_last --
-- The complete backup that was started last, in a folder if one is given. Clocks may be set back.
SELECT id, name, destination, started_at, taken_at, finished_at, rows, bytes, new_bytes, error
FROM backups WHERE finished_at IS NOT NULL
    AND (%(destination)s::text IS NULL OR destination = %(destination)s)
ORDER BY id DESC LIMIT 1

-- get_last_failure --
-- The newest backup that failed, unless one there that was started later is complete.
SELECT id, name, destination, started_at, taken_at, finished_at, rows, bytes, new_bytes, error
FROM backups b WHERE error IS NOT NULL
    AND (%(destination)s::text IS NULL OR destination = %(destination)s)
    AND NOT EXISTS (SELECT FROM backups later WHERE later.finished_at IS NOT NULL
        AND later.destination = b.destination AND later.id > b.id)
ORDER BY id DESC LIMIT 1

-- get_first_start --
-- When the first backup was started, in a folder if one is given.
SELECT min(started_at) FROM backups
WHERE %(destination)s::text IS NULL OR destination = %(destination)s

-- delete_before --
-- Backups that were started a long time ago, except the newest complete one.
DELETE FROM backups WHERE started_at < clock_timestamp() - %(age)s::interval
    AND id IS DISTINCT FROM (
        SELECT id FROM backups WHERE finished_at IS NOT NULL ORDER BY id DESC LIMIT 1)

-- get_now --
-- The time.
SELECT clock_timestamp()
