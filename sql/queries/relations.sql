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

-- list_sources --
-- The versions of all relations that are in use, by relation.
SELECT relation, fingerprint, rows, read_at FROM relation_sources ORDER BY relation

-- put_source --
-- Store which version of a relation is in use; the same one keeps the time at which it was read.
INSERT INTO relation_sources (relation, fingerprint, rows)
VALUES (%(relation)s, %(fingerprint)s, %(rows)s)
ON CONFLICT (relation) DO UPDATE
SET fingerprint = excluded.fingerprint, rows = excluded.rows, read_at = clock_timestamp()
WHERE (relation_sources.fingerprint, relation_sources.rows)
    IS DISTINCT FROM (excluded.fingerprint, excluded.rows)

-- put_held --
-- Store that a version of a relation is held back; the same one keeps its time and its acceptance.
INSERT INTO held_relations (relation, fingerprint, rows, rows_in_use)
VALUES (%(relation)s, %(fingerprint)s, %(rows)s, %(rows_in_use)s)
ON CONFLICT (relation) DO UPDATE
SET fingerprint = excluded.fingerprint, rows = excluded.rows, rows_in_use = excluded.rows_in_use,
    held_at = clock_timestamp(), accepted = false
WHERE held_relations.fingerprint <> excluded.fingerprint

-- delete_held --
-- Delete the version of a relation that is held back.
DELETE FROM held_relations WHERE relation = %(relation)s

-- delete_undeclared_held --
-- Delete the versions that are held back of relations that are not declared.
DELETE FROM held_relations WHERE relation <> ALL(%(declared)s)

-- accept_held --
-- Have the version of a relation used that is held back. Returns nothing if there is none.
UPDATE held_relations SET accepted = true WHERE relation = %(relation)s
RETURNING relation, fingerprint, rows, rows_in_use, held_at, accepted

-- list_held --
-- The versions of relations that are held back, by relation.
SELECT relation, fingerprint, rows, rows_in_use, held_at, accepted
FROM held_relations ORDER BY relation

-- list_declarations --
-- The columns and keys with which the rows of relations are stored.
SELECT relation, columns, key FROM relation_declarations ORDER BY relation

-- put_declaration --
-- Store the columns and the key of a relation.
INSERT INTO relation_declarations (relation, columns, key)
VALUES (%(relation)s, %(columns)s, %(key)s)
ON CONFLICT (relation) DO UPDATE SET columns = excluded.columns, key = excluded.key

-- list_stored_rows --
-- All row versions of a relation as they are stored, without those of removed rows.
SELECT key, valid_from, row FROM relation_versions
WHERE relation = %(relation)s AND row IS NOT NULL ORDER BY key, valid_from

-- replace_row --
-- Store a row version under changed columns; it is not a new version.
UPDATE relation_versions SET row = %(row)s
WHERE relation = %(relation)s AND key = %(key)s AND valid_from = %(valid_from)s
