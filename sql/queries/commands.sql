-- list_pending --
-- Commands that have not been executed, oldest first.
SELECT id FROM commands WHERE done_at IS NULL ORDER BY id

-- lock --
-- Lock a command for execution; no row where another process executes it.
SELECT command, target FROM commands WHERE id = %(id)s AND done_at IS NULL FOR UPDATE SKIP LOCKED

-- add --
-- Store a command, unless its key exists.
INSERT INTO commands (key, command, target, author)
VALUES (%(key)s, %(command)s, jsonb_strip_nulls(%(target)s::jsonb || jsonb_build_object(
    'before', clock_timestamp() - make_interval(secs => %(older)s::float8))), %(author)s)
ON CONFLICT (key) DO NOTHING RETURNING id

-- find_by_key --
-- A command by its idempotency key.
SELECT id, command, target, author, effect FROM commands WHERE key = %(key)s

-- get --
-- A command by its number.
SELECT id, command, target, author, effect FROM commands WHERE id = %(id)s

-- record_effect --
-- Store that a command was executed.
UPDATE commands SET done_at = clock_timestamp(), effect = %(effect)s WHERE id = %(id)s

-- effect --
-- The effect of a command; NULL until it is executed.
SELECT effect FROM commands WHERE id = %(id)s
