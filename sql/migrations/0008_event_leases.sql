-- One recall process holds all tasks of an event that has stages or a condition; the events of a rule
-- are read by time.
ALTER TABLE recalled_events
    ADD COLUMN IF NOT EXISTS has_stages boolean NOT NULL GENERATED ALWAYS AS (
        jsonb_array_length(coalesce(plan->'stages', '[]')) > 0 OR plan->>'where' IS NOT NULL) STORED,
    ADD COLUMN IF NOT EXISTS lease integer;
DROP INDEX IF EXISTS recalled_events_evaluated;
CREATE INDEX recalled_events_evaluated ON recalled_events (ts, eid) WHERE ended_at IS NULL AND has_stages;
DROP INDEX IF EXISTS recalled_events_by_time;
CREATE INDEX recalled_events_by_time ON recalled_events (rule, ts);
