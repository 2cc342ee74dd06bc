-- insert --
-- Insert a dead letter, unless an earlier read of its unit has inserted it.
INSERT INTO dead_letters (unit_id, line, reason, detail, raw)
VALUES (%(unit_id)s, %(line)s, %(reason)s, %(detail)s, %(raw)s) ON CONFLICT DO NOTHING

-- list_newest --
-- Dead letters of a stream or of all, with a reason or with any, newest first. `cursor_at`, `cursor_unit`, `cursor_line`:
-- the last one of the previous page.
SELECT d.unit_id || ':' || d.line AS id, u.stream, u.unit AS source, d.line, d.reason, d.detail,
       d.raw, d.at, d.retry
FROM dead_letters d JOIN units u ON u.id = d.unit_id
WHERE (%(stream)s::text IS NULL OR u.stream = %(stream)s)
  AND (%(reason)s::text IS NULL OR d.reason = %(reason)s)
  AND (%(cursor_at)s::timestamptz IS NULL
    OR (d.at, d.unit_id, d.line) < (%(cursor_at)s::timestamptz, %(cursor_unit)s::bigint, %(cursor_line)s::bigint))
ORDER BY d.at DESC, d.unit_id DESC, d.line DESC LIMIT %(limit)s

-- count --
-- The number of dead letters of a stream or of all, with a reason or with any.
SELECT count(*) FROM dead_letters d JOIN units u ON u.id = d.unit_id
WHERE (%(stream)s::text IS NULL OR u.stream = %(stream)s)
  AND (%(reason)s::text IS NULL OR d.reason = %(reason)s)

-- mark_for_retry --
-- Mark dead letters for retry, the oldest first.
UPDATE dead_letters d SET retry = true FROM (
    SELECT l.unit_id, l.line FROM dead_letters l JOIN units u ON u.id = l.unit_id
    WHERE (NOT %(has_ids)s
           OR (l.unit_id, l.line) IN (SELECT * FROM unnest(%(units)s::bigint[], %(lines)s::bigint[])))
      AND (%(stream)s::text IS NULL OR u.stream = %(stream)s)
      AND (%(reason)s::text IS NULL OR l.reason = %(reason)s)
    ORDER BY l.at, l.unit_id, l.line LIMIT %(limit)s) AS selected
WHERE d.unit_id = selected.unit_id AND d.line = selected.line
RETURNING d.unit_id, d.line

-- list_marked --
-- Dead letters of some streams that are marked for retry, by stream, unit and line.
SELECT u.stream, d.unit_id, d.line, d.reason, d.raw, u.fields, u.clock, u.format, u.unit,
       CASE WHEN u.partition IS NULL THEN NULL ELSE regexp_replace(u.unit, '/[^/]*$', '') END AS place
FROM dead_letters d JOIN units u ON u.id = d.unit_id
WHERE d.retry AND u.stream = ANY(%(streams)s::text[])
ORDER BY u.stream, d.unit_id, d.line LIMIT %(limit)s

-- unmark --
-- Withdraw the requests to retry dead letters of some streams.
UPDATE dead_letters d SET retry = false FROM units u
WHERE u.id = d.unit_id AND u.stream = ANY(%(streams)s) AND d.retry

-- count_marked --
-- The number of dead letters of some streams, or of all, that are marked for retry.
SELECT count(*) FROM dead_letters d JOIN units u ON u.id = d.unit_id
WHERE d.retry AND (%(streams)s::text[] IS NULL OR u.stream = ANY(%(streams)s::text[]))

-- count_unmarked --
-- How many of some lines are dead letters that are not marked for retry.
SELECT count(*)
FROM dead_letters d JOIN unnest(%(units)s::bigint[], %(lines)s::bigint[]) AS n (unit_id, line)
USING (unit_id, line)
WHERE NOT d.retry

-- delete --
-- Delete dead letters of a unit.
DELETE FROM dead_letters WHERE unit_id = %(unit_id)s AND line = ANY(%(lines)s)

-- delete_old --
-- Delete old dead letters that are not marked for retry; their units count them.
WITH deleted AS (
    DELETE FROM dead_letters WHERE (unit_id, line) IN (
        SELECT unit_id, line FROM dead_letters
        WHERE at < clock_timestamp() - %(min_age)s::interval AND NOT retry
        ORDER BY at LIMIT %(limit)s)
    RETURNING unit_id)
UPDATE units u SET dropped = u.dropped + d.rows
FROM (SELECT unit_id, count(*) AS rows FROM deleted GROUP BY unit_id) d
WHERE u.id = d.unit_id RETURNING d.rows

-- count_by_unit --
-- The number of dead letters of each unit of a stream, stored or deleted since.
SELECT u.id, u.dropped + count(d.line) FROM units u
LEFT JOIN dead_letters d ON u.id = d.unit_id WHERE stream = %(stream)s GROUP BY u.id
