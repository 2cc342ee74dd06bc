-- list_all --
-- How far each stream has been read.
SELECT name, previous_names, newest, advanced, newest_not_ahead, advanced_ahead, clock, keys_ahead,
    first FROM streams

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

-- put_first --
-- Store the event time of the first row of a stream, once.
UPDATE streams SET first = %(first)s WHERE name = %(name)s AND first IS NULL

-- list_appends --
-- The number of the last append of each stream whose rows the ledger counts.
SELECT name, appends FROM streams

-- list_settled --
-- The number of the last append whose rows the ledger counts, and the source units that may be read
-- again: those that are not read to their end, and those with dead letters that are retried.
SELECT s.name, s.appends, ARRAY(
    SELECT u.id FROM units u WHERE u.stream = s.name AND NOT u.done
    UNION SELECT u.id FROM dead_letters d JOIN units u ON u.id = d.unit_id
    WHERE d.retry AND u.stream = s.name
) AS open_units
FROM streams s WHERE s.appends IS NOT NULL

-- put_appends --
-- Store it.
UPDATE streams SET appends = %(appends)s WHERE name = %(name)s

-- put_keys_ahead --
-- Replace the keys whose rows are furthest ahead of the clock.
UPDATE streams SET keys_ahead = %(keys)s WHERE name = %(name)s

-- advance --
-- Advance a stream without data; rows before that event time are late from now on.
UPDATE streams SET advanced = greatest(advanced, %(advanced)s) WHERE name = %(name)s

-- advance_ahead --
-- Let the watermark of a stream follow rows ahead; rows before that event time are late from now on.
UPDATE streams SET advanced_ahead = greatest(advanced_ahead, %(advanced)s) WHERE name = %(name)s
