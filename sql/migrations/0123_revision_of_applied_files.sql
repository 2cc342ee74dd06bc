-- Files that are applied are not read again at a start: see `sql/schema.sql`.
ALTER TABLE rule_files ADD COLUMN revision bigint;
