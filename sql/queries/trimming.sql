-- list_ended --
-- Lock tasks that ended some time ago and cannot start again: their event has its boundary, or they are ad-hoc queries.
SELECT t.id, t.pieces FROM tasks t
WHERE t.ended_at < clock_timestamp() - %(age)s::interval AND t.piece_count IS NULL AND (t.rule = 'query' OR EXISTS (
    SELECT FROM recalled_events r WHERE r.rule = t.rule AND r.version = t.version AND r.eid = t.eid
        AND r.ended_at < clock_timestamp() - %(age)s::interval))
ORDER BY t.ended_at LIMIT %(limit)s FOR UPDATE OF t SKIP LOCKED

-- put_pieces --
-- Replace the pieces of a task by a shorter description of them.
UPDATE tasks SET pieces = CASE WHEN pieces IS NOT NULL THEN %(pieces)s::jsonb END, piece_count = %(piece_count)s WHERE id = %(id)s

-- delete_superseded --
-- Delete all but the last answers of tasks.
DELETE FROM revisions r WHERE r.task = ANY(%(ids)s)
    AND EXISTS (SELECT FROM revisions l WHERE l.task = r.task AND l.number > r.number)

-- delete_archived_rows --
-- Delete the archived revisions of a recall about events that had their boundary some time ago; returns how many. Those
-- of stages stay: they are exported from here.
WITH ended AS MATERIALIZED (
    SELECT v.eid, v.version, v.seq FROM row_revisions v JOIN revision_streams s ON s.id = v.stream
    WHERE v.stream = %(stream)s AND v.op = 'boundary' AND v.seq <= s.archived
        AND v.at < clock_timestamp() - %(age)s::interval
        AND NOT EXISTS (SELECT FROM stages g WHERE g.rule = s.rule AND g.name = s.name)
    ORDER BY v.seq LIMIT %(limit)s),
deleted AS (
    DELETE FROM row_revisions v USING ended e
    WHERE v.stream = %(stream)s AND v.eid = e.eid AND v.version = e.version AND v.seq <= e.seq
    RETURNING v.seq),
recorded AS (
    UPDATE revision_streams SET trimmed_to = greatest(trimmed_to, (SELECT max(seq) FROM deleted)) WHERE id = %(stream)s)
SELECT count(*) FROM deleted
