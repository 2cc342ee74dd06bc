-- list_units --
-- Source units as they were read. Of a later reading of a file, the version of the file is at its name.
SELECT u.id, u.stream, u.unit, u.clock, coalesce(f.size, u.size) AS size, coalesce(f.modified, u.modified) AS modified,
    coalesce(f.readings, u.readings) AS readings,
    ARRAY(SELECT d.line FROM dead_letters d WHERE d.unit_id = u.id ORDER BY d.line) AS refused_lines,
    u.place, ARRAY(SELECT n.unit FROM units n
        WHERE n.stream = u.stream AND n.stamp IS NOT NULL AND n.id <> u.id
            AND split_part(n.stamp, ':', 1) = split_part(u.stamp, ':', 1) ORDER BY n.id DESC) AS names
FROM units u LEFT JOIN units f ON f.stream = u.stream AND u.unit = f.unit || '#' || f.readings AND f.readings > 1
WHERE u.id = ANY(%(ids)s) ORDER BY u.id

-- adopt_unit --
-- A source unit of rows that only the archive has.
INSERT INTO units (id, stream, unit, done, done_at, read, archived) OVERRIDING SYSTEM VALUE
VALUES (%(id)s, %(stream)s, 'recovered-' || %(id)s::bigint, true, clock_timestamp(), %(rows)s, %(rows)s)

-- raise_unit_numbers --
-- Source units that come next have other numbers.
SELECT setval(pg_get_serial_sequence('units', 'id'), greatest(%(id)s, (SELECT max(id) FROM units)))

-- record_lost --
-- Rows that nothing has any more.
INSERT INTO lost_rows (stream, unit, rows, first_ts, last_ts, ids)
VALUES (%(stream)s, %(unit)s, %(rows)s, %(first_ts)s, %(last_ts)s, %(ids)s)

-- list_lost --
-- Rows that are known to be lost, in order.
SELECT stream, unit, rows, first_ts, last_ts, ids FROM lost_rows ORDER BY id
