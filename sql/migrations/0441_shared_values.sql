-- What the machines of a workspace declare alike: see `sql/schema.sql`.
ALTER TABLE workspace ADD COLUMN shared_values jsonb;
