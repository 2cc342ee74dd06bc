-- export --
-- The snapshot of this transaction for other sessions, the time, and the identity of the workspace.
SELECT pg_export_snapshot() AS snapshot, clock_timestamp() AS taken_at

-- count_done --
-- How many of some source units are archived according to the snapshot.
SELECT count(*) FROM units WHERE done AND id = ANY(%(ids)s)

-- list_open_batches --
-- Batches of landing folders that were begun and are not archived: stream and name.
SELECT stream, unit FROM units
WHERE NOT done AND unit ~ '^(push|ingest)-' AND strpos(unit, '/') = 0 ORDER BY id

-- last_migration --
-- The number of the newest migration.
SELECT max(number) FROM schema_migrations
