-- Queries that follow: up to which append of each stream their answers include live rows.
ALTER TABLE tasks ADD COLUMN live_appends jsonb;
