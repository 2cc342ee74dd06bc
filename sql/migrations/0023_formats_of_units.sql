-- Dead letters of units in formats other than JSON lines and CSV are retried as they were read.
ALTER TABLE units ADD COLUMN format jsonb;
