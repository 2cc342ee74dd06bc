-- A file of a stream whose rows are identified by their place is found again when it was renamed.
ALTER TABLE units ADD COLUMN place text, ADD COLUMN stamp text;
CREATE INDEX units_by_inode ON units (stream, split_part(stamp, ':', 1)) WHERE stamp IS NOT NULL;
