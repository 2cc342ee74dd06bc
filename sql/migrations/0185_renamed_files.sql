-- A file of a stream whose rows are identified by their place is found again when it was renamed.
ALTER TABLE units ADD COLUMN place text, ADD COLUMN stamp text;
CREATE INDEX units_by_stamp ON units (stream, stamp) WHERE stamp IS NOT NULL;
