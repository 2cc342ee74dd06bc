-- list_all --
-- How far each stream has been read.
SELECT name, newest, advanced FROM streams

-- insert --
-- Register a declared stream, unless it is registered.
INSERT INTO streams (name) VALUES (%(name)s) ON CONFLICT DO NOTHING

-- raise_newest --
-- Raise the newest event time of a stream.
UPDATE streams SET newest = greatest(newest, %(newest)s) WHERE name = %(name)s

-- advance --
-- Advance a stream without data; rows before that event time are late from now on.
UPDATE streams SET advanced = greatest(advanced, %(advanced)s) WHERE name = %(name)s

-- list_partitions --
-- How far each partition has been read.
SELECT stream, partition, next, newest, advanced FROM partitions

-- put_partition --
-- Store how far a partition has been read; values never decrease.
INSERT INTO partitions (stream, partition, next, newest, advanced)
VALUES (%(stream)s, %(partition)s, %(next)s, %(newest)s, %(advanced)s)
ON CONFLICT (stream, partition) DO UPDATE SET next = greatest(partitions.next, excluded.next),
    newest = greatest(partitions.newest, excluded.newest),
    advanced = greatest(partitions.advanced, excluded.advanced)
