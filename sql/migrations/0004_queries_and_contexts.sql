-- Queries that follow: up to which append of each stream their answers include live rows.
ALTER TABLE tasks ADD COLUMN live_appends jsonb;

-- The state of the context that an answer of a similarity recall, stored at a time, compared: settled or provisional.
-- NULL: the context was deleted.
CREATE OR REPLACE FUNCTION compared_context(task tasks, answered_at timestamptz) RETURNS text LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN c.settled AND c.at <= answered_at THEN 'settled' ELSE 'provisional' END FROM contexts c
    WHERE c.rule = task.rule AND c.version = task.version AND c.eid = task.eid
$$;
