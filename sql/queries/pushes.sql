-- remember --
-- What was posted under a key, first of all.
INSERT INTO pushes (stream, key, digest) VALUES (%(stream)s, %(key)s, %(digest)s)
ON CONFLICT (stream, key) DO NOTHING

-- digest --
-- The digest of what was posted under a key.
SELECT digest FROM pushes WHERE stream = %(stream)s AND key = %(key)s

-- forget --
-- Keys that nobody will use again.
DELETE FROM pushes WHERE at < clock_timestamp() - interval '7 days'

-- archived --
-- Whether a batch has been archived.
SELECT done FROM units WHERE stream = %(stream)s AND unit = %(unit)s
