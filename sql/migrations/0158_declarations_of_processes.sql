-- The streams and relations that the live process has read: see `sql/schema.sql`.
ALTER TABLE processes ADD COLUMN declarations jsonb;
