-- list_all --
-- All topics that streams read or have read, oldest first.
SELECT id, stream, number, name, topic_id, servers, cluster, current FROM topics ORDER BY id

-- list_partitions --
-- How far each partition of each topic has been read.
SELECT topic, partition, next, end_offset, newest, advanced, newest_not_ahead, advanced_ahead
FROM partitions

-- insert --
-- Store a topic that its stream does not read yet.
INSERT INTO topics (stream, number, name, topic_id, servers, cluster, current)
VALUES (%(stream)s, %(number)s, %(name)s, %(topic_id)s, %(servers)s, %(cluster)s, false)
RETURNING id

-- identify --
-- Store by which name, id, servers and cluster a topic is read.
UPDATE topics SET name = %(name)s, topic_id = %(topic_id)s, servers = %(servers)s,
    cluster = %(cluster)s
WHERE id = %(id)s

-- leave --
-- A stream reads none of its topics any more.
UPDATE topics SET current = false WHERE stream = %(stream)s AND current

-- select --
-- A stream reads a topic, after it has left the previous one.
UPDATE topics SET current = true, since = clock_timestamp() WHERE id = %(id)s

-- put_partition --
-- Store how far a partition has been read; values never decrease.
INSERT INTO partitions (topic, partition, next, newest, advanced, newest_not_ahead, advanced_ahead)
VALUES (%(topic)s, %(partition)s, %(next)s, %(newest)s, %(advanced)s, %(newest_not_ahead)s,
    %(advanced_ahead)s)
ON CONFLICT (topic, partition) DO UPDATE SET next = greatest(partitions.next, excluded.next),
    newest = greatest(partitions.newest, excluded.newest),
    advanced = greatest(partitions.advanced, excluded.advanced),
    newest_not_ahead = greatest(partitions.newest_not_ahead, excluded.newest_not_ahead),
    advanced_ahead = greatest(partitions.advanced_ahead, excluded.advanced_ahead)

-- put_end --
-- Store where a partition ended when it was last seen.
UPDATE partitions SET end_offset = %(end_offset)s
WHERE topic = %(topic)s AND partition = %(partition)s
