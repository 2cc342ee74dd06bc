-- list_of_table --
-- The files of a table that were seen.
SELECT path, digest, checked_at, problem FROM file_checks WHERE table_name = %(table)s

-- list_recorded --
-- The digests that only the database has.
SELECT path, digest FROM file_checks WHERE table_name = %(table)s AND digest IS NOT NULL

-- list_problems --
-- Damaged files of all tables.
SELECT table_name, path, problem, checked_at FROM file_checks WHERE problem IS NOT NULL
ORDER BY table_name, path

-- put --
-- Files that were seen or read now.
INSERT INTO file_checks (table_name, path, digest, problem)
SELECT table_name, path, digest, problem
FROM json_to_recordset(%(rows)s::json) AS r (table_name text, path text, digest text, problem text)
ON CONFLICT (table_name, path) DO UPDATE SET digest = excluded.digest, problem = excluded.problem,
    checked_at = excluded.checked_at

-- forget --
-- Files that are no part of a table any more.
DELETE FROM file_checks WHERE table_name = %(table)s AND path = ANY(%(paths)s)

-- forget_other_tables --
-- Files of tables that are gone.
DELETE FROM file_checks WHERE table_name <> ALL(%(tables)s)
