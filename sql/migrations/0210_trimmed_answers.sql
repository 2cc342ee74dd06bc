-- What ended recalls leave is trimmed: see `sql/schema.sql`.
ALTER TABLE tasks ADD COLUMN piece_count integer;
CREATE INDEX tasks_to_trim ON tasks (ended_at) WHERE ended_at IS NOT NULL AND piece_count IS NULL;
ALTER TABLE revision_streams ADD COLUMN trimmed_to bigint NOT NULL DEFAULT 0;
CREATE INDEX row_revisions_boundaries ON row_revisions (stream, seq) WHERE op = 'boundary';

CREATE OR REPLACE FUNCTION listed_chunks(pieces jsonb) RETURNS TABLE (chunk integer, place bigint) LANGUAGE sql IMMUTABLE AS $$
    SELECT r.chunk, row_number() OVER (ORDER BY p.place, r.number)
    FROM jsonb_array_elements(pieces) WITH ORDINALITY AS p (piece, place)
    CROSS JOIN LATERAL (SELECT (p.piece->>0)::integer AS first, CASE jsonb_array_length(p.piece)
        WHEN 2 THEN (p.piece->>1)::integer ELSE (p.piece->>0)::integer END AS last) e
    CROSS JOIN LATERAL generate_series(e.first, e.last, CASE WHEN e.last < e.first THEN -1 ELSE 1 END)
        WITH ORDINALITY AS r (chunk, number)
$$;
CREATE OR REPLACE FUNCTION changed_since_read(task tasks) RETURNS bigint LANGUAGE sql STABLE AS $$
    SELECT count(DISTINCT c.id) FROM listed_chunks(task.pieces) p JOIN chunks c ON c.id = p.chunk
    WHERE task.request->>'kind' = 'sql' AND p.place <= task.next AND c.late_at > task.started_at
$$;
CREATE OR REPLACE VIEW dashboard.recalls AS
SELECT t.id, t.eid, t.rule, t.recall, t.request->>'kind' AS kind, t.state, t.created_at AS requested_at,
    t.first_at AS first_answer_at, t.ended_at, coalesce(t.piece_count, jsonb_array_length(t.pieces)) AS chunks,
    t.next AS chunks_read, t.failed AS chunks_failed, t.revision, t.tickets, t.seconds, t.error
FROM tasks t;
