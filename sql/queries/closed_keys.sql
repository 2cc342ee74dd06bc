-- list_all --
-- The keys of all streams for which event time is closed.
SELECT stream, partition, columns, key, closed FROM closed_keys

-- put --
-- Close event time for a key; an earlier time is ignored.
INSERT INTO closed_keys AS c (stream, partition, columns, key, closed)
VALUES (%(stream)s, %(partition)s, %(columns)s, %(key)s, %(closed)s)
ON CONFLICT (stream, partition, columns, key) DO UPDATE SET closed = greatest(c.closed, excluded.closed)

-- delete_passed --
-- Delete the keys of a source whose closed time its watermark has reached.
DELETE FROM closed_keys
WHERE stream = %(stream)s AND partition = %(partition)s AND closed <= %(watermark)s
