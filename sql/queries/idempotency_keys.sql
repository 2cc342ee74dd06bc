-- insert --
-- Store the digest of a batch under its key, unless the key is known.
INSERT INTO pushes (stream, key, digest) VALUES (%(stream)s, %(key)s, %(digest)s)
ON CONFLICT (stream, key) DO NOTHING

-- find_digest --
-- The digest of the batch that was accepted under a key.
SELECT digest FROM pushes WHERE stream = %(stream)s AND key = %(key)s

-- delete_expired --
-- Delete keys older than 7 days.
DELETE FROM pushes WHERE at < clock_timestamp() - interval '7 days'
