-- list_newest --
-- The newest version of each key of a relation.
SELECT DISTINCT ON (key) key, row FROM relation_versions
WHERE relation = %(relation)s ORDER BY key, valid_from DESC

-- has_versions --
-- Whether a relation has any version of a row.
SELECT EXISTS (SELECT FROM relation_versions WHERE relation = %(relation)s)

-- put_version --
-- Store a version of a row.
INSERT INTO relation_versions (relation, key, valid_from, row)
VALUES (%(relation)s, %(key)s, %(valid_from)s, %(row)s)
ON CONFLICT (relation, key, valid_from) DO UPDATE SET row = excluded.row, at = clock_timestamp()
WHERE relation_versions.row IS DISTINCT FROM excluded.row

-- list_versions --
-- All row versions of a relation with the time range in which each is valid.
SELECT row, valid_from, lead(valid_from) OVER (PARTITION BY key ORDER BY valid_from) AS valid_to
FROM relation_versions WHERE relation = %(relation)s ORDER BY key, valid_from

-- put_error --
-- Store why a relation cannot be read; the same error keeps the time at which it was first seen.
INSERT INTO relation_errors (relation, error) VALUES (%(relation)s, %(error)s)
ON CONFLICT (relation) DO UPDATE SET error = excluded.error, at = clock_timestamp()
WHERE relation_errors.error <> excluded.error

-- delete_error --
-- Delete the error of a relation that was read.
DELETE FROM relation_errors WHERE relation = %(relation)s

-- delete_undeclared_errors --
-- Delete the errors of relations that are not declared.
DELETE FROM relation_errors WHERE relation <> ALL(%(declared)s)

-- list_errors --
-- The errors of relations that cannot be read, by relation.
SELECT relation, error, at FROM relation_errors ORDER BY relation
