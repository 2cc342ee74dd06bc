-- add --
-- Count records that are no rows.
INSERT INTO skipped_records AS s (stream, reason, records) VALUES (%(stream)s, %(reason)s, %(records)s)
ON CONFLICT (stream, reason) DO UPDATE SET records = s.records + excluded.records

-- list_all --
-- The number of records by stream and reason.
SELECT stream, reason, records FROM skipped_records ORDER BY stream, reason
