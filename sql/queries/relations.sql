-- latest --
-- The newest version of each key of a relation.
SELECT DISTINCT ON (key) key, row FROM relation_versions WHERE relation = %(relation)s ORDER BY key, valid_from DESC

-- known --
-- Whether there is any version of any row of a relation.
SELECT EXISTS (SELECT FROM relation_versions WHERE relation = %(relation)s)

-- put --
-- A version of a row.
INSERT INTO relation_versions (relation, key, valid_from, row)
VALUES (%(relation)s, %(key)s, %(valid_from)s, %(row)s)
ON CONFLICT (relation, key, valid_from) DO UPDATE SET row = excluded.row, at = clock_timestamp()
WHERE relation_versions.row IS DISTINCT FROM excluded.row

-- versions --
-- All versions with the time in which each holds.
SELECT row, valid_from, lead(valid_from) OVER (PARTITION BY key ORDER BY valid_from) AS valid_to
FROM relation_versions WHERE relation = %(relation)s ORDER BY key, valid_from

-- put_error --
-- The source of a relation cannot be read. The same error keeps the time at which it was first seen.
INSERT INTO relation_errors (relation, error) VALUES (%(relation)s, %(error)s)
ON CONFLICT (relation) DO UPDATE SET error = excluded.error, at = clock_timestamp()
WHERE relation_errors.error <> excluded.error

-- drop_error --
-- The source of a relation was read.
DELETE FROM relation_errors WHERE relation = %(relation)s

-- forget_undeclared --
-- Errors of relations that are not declared any more.
DELETE FROM relation_errors WHERE relation <> ALL(%(declared)s)

-- errors --
-- Relations whose source cannot be read.
SELECT relation, error, at FROM relation_errors ORDER BY relation
