-- list_all --
-- How far each stream has been read.
SELECT name, newest, advanced, newest_not_ahead, advanced_ahead, clock, keys_ahead FROM streams

-- insert --
-- Register a declared stream, unless it is registered.
INSERT INTO streams (name) VALUES (%(name)s) ON CONFLICT DO NOTHING

-- raise_newest --
-- Raise the newest event times of a stream; NULL changes nothing.
UPDATE streams SET newest = greatest(newest, %(newest)s),
    newest_not_ahead = greatest(newest_not_ahead, %(newest_not_ahead)s) WHERE name = %(name)s

-- raise_clock --
-- Raise the clock at which source units of a stream are first read.
UPDATE streams SET clock = greatest(clock, %(clock)s) WHERE name = %(name)s

-- put_keys_ahead --
-- Replace the keys whose rows are furthest ahead of the clock.
UPDATE streams SET keys_ahead = %(keys)s WHERE name = %(name)s

-- advance --
-- Advance a stream without data; rows before that event time are late from now on.
UPDATE streams SET advanced = greatest(advanced, %(advanced)s) WHERE name = %(name)s

-- advance_ahead --
-- Let the watermark of a stream follow rows ahead; rows before that event time are late from now on.
UPDATE streams SET advanced_ahead = greatest(advanced_ahead, %(advanced)s) WHERE name = %(name)s

-- list_partitions --
-- How far each partition has been read.
SELECT stream, partition, next, newest, advanced, newest_not_ahead, advanced_ahead FROM partitions

-- put_partition --
-- Store how far a partition has been read; values never decrease.
INSERT INTO partitions (stream, partition, next, newest, advanced, newest_not_ahead, advanced_ahead)
VALUES (%(stream)s, %(partition)s, %(next)s, %(newest)s, %(advanced)s, %(newest_not_ahead)s,
    %(advanced_ahead)s)
ON CONFLICT (stream, partition) DO UPDATE SET next = greatest(partitions.next, excluded.next),
    newest = greatest(partitions.newest, excluded.newest),
    advanced = greatest(partitions.advanced, excluded.advanced),
    newest_not_ahead = greatest(partitions.newest_not_ahead, excluded.newest_not_ahead),
    advanced_ahead = greatest(partitions.advanced_ahead, excluded.advanced_ahead)
