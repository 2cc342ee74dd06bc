-- insert --
-- A new token.
INSERT INTO tokens (id, name, role, hash, stream)
VALUES (%(id)s, %(name)s, %(role)s, %(hash)s, %(stream)s)

-- list_all --
-- All tokens by name, without their hashes.
SELECT name, role, stream, created_at, revoked_at FROM tokens ORDER BY name, created_at

-- list_page --
-- Tokens by name and age, after one of them.
SELECT name, role, stream, created_at, revoked_at FROM tokens
WHERE %(name)s::text IS NULL OR (name, created_at) > (%(name)s, %(created_at)s::timestamptz)
ORDER BY name, created_at LIMIT %(limit)s

-- get_active --
-- The name, role, hash and stream of a token that is not revoked.
SELECT name, role, hash, stream FROM tokens WHERE id = %(id)s AND revoked_at IS NULL

-- revoke --
-- Revoke the active token of a name.
UPDATE tokens SET revoked_at = clock_timestamp() WHERE name = %(name)s AND revoked_at IS NULL
