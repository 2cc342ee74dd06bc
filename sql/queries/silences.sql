-- put --
-- Add a silence, or replace it.
INSERT INTO silences (id, matchers, starts_at, ends_at, schedule, author, comment, replaces)
VALUES (%(id)s, %(matchers)s, %(starts_at)s, %(ends_at)s, %(schedule)s, %(author)s, %(comment)s, %(replaces)s)
ON CONFLICT (id) DO UPDATE SET matchers = excluded.matchers, starts_at = excluded.starts_at, ends_at = excluded.ends_at,
    schedule = excluded.schedule, author = excluded.author, comment = excluded.comment, updated_at = clock_timestamp()

-- get --
-- A silence.
SELECT id, matchers, starts_at, ends_at, schedule, author, comment, replaces, created_at, updated_at FROM silences WHERE id = %(id)s

-- expire --
-- End a silence now, unless it has ended.
UPDATE silences SET ends_at = greatest(%(now)s, starts_at), starts_at = least(starts_at, %(now)s), updated_at = clock_timestamp()
WHERE id = %(id)s AND ends_at > %(now)s

-- list_all --
-- Silences that end after a time, newest first.
SELECT id, matchers, starts_at, ends_at, schedule, author, comment, replaces, created_at, updated_at FROM silences
WHERE %(ends_after)s::timestamptz IS NULL OR ends_at > %(ends_after)s ORDER BY starts_at DESC, id LIMIT %(limit)s

-- get_revision --
-- Changes with each silence.
SELECT count(*)::text || ' ' || coalesce(max(updated_at)::text, '') FROM silences
