-- insert --
-- Record that records of a partition were lost before they were read.
INSERT INTO lost_records (stream, topic, partition, first_offset, last_offset, reason)
VALUES (%(stream)s, %(topic)s, %(partition)s, %(first_offset)s, %(last_offset)s, %(reason)s)

-- list_open --
-- The losses that nobody has acknowledged.
SELECT id, stream, topic, partition, first_offset, last_offset, reason, noticed_at, acknowledged_at
FROM lost_records WHERE acknowledged_at IS NULL ORDER BY id

-- list_newest --
-- All losses, newest first; of one stream, unless NULL.
SELECT id, stream, topic, partition, first_offset, last_offset, reason, noticed_at, acknowledged_at
FROM lost_records
WHERE (%(stream)s::text IS NULL OR stream = %(stream)s::text)
  AND (%(before)s::bigint IS NULL OR id < %(before)s::bigint)
ORDER BY id DESC LIMIT %(limit)s

-- count --
-- The number of losses; of one stream, unless NULL.
SELECT count(*) FROM lost_records
WHERE (%(stream)s::text IS NULL OR stream = %(stream)s::text)

-- acknowledge --
-- Acknowledge the losses of a stream.
UPDATE lost_records SET acknowledged_at = clock_timestamp()
WHERE stream = %(stream)s AND acknowledged_at IS NULL
RETURNING id, stream, topic, partition, first_offset, last_offset, reason, noticed_at, acknowledged_at

-- count_by_reason --
-- The number of records lost, as far as it is known, by stream and reason, and the number of losses
-- that nobody has acknowledged.
SELECT stream, reason, coalesce(sum(last_offset - first_offset + 1), 0)::bigint AS records,
       count(*) FILTER (WHERE acknowledged_at IS NULL) AS open
FROM lost_records GROUP BY stream, reason ORDER BY stream, reason
