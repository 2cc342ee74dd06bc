-- Which engine archives the batches of the live process.
ALTER TABLE processes ADD COLUMN IF NOT EXISTS ingest jsonb;
