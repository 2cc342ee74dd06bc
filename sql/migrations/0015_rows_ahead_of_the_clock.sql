-- The clock at which each source unit was first read, and what follows from rows ahead of it.
-- Of the rows read so far none counts as ahead: the watermarks stay where they are.
ALTER TABLE streams ADD COLUMN newest_not_ahead timestamptz;
ALTER TABLE streams ADD COLUMN advanced_ahead timestamptz;
ALTER TABLE streams ADD COLUMN clock timestamptz;
ALTER TABLE streams ADD COLUMN keys_ahead jsonb NOT NULL DEFAULT '[]';
UPDATE streams SET newest_not_ahead = newest;
ALTER TABLE partitions ADD COLUMN newest_not_ahead timestamptz;
ALTER TABLE partitions ADD COLUMN advanced_ahead timestamptz;
UPDATE partitions SET newest_not_ahead = newest;
ALTER TABLE units ADD COLUMN clock timestamptz;
ALTER TABLE units ADD COLUMN late_by_ahead bigint NOT NULL DEFAULT 0;
ALTER TABLE units ADD COLUMN partition text;
CREATE INDEX units_of_partition ON units (stream, partition) WHERE NOT done AND partition IS NOT NULL;
