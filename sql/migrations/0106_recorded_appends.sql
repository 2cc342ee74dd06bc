-- Rows of interrupted batches are counted: see `sql/schema.sql`.
ALTER TABLE streams ADD COLUMN appends bigint;
