-- insert --
-- A new token.
INSERT INTO tokens (id, name, role, hash, stream, allow_query)
VALUES (%(id)s, %(name)s, %(role)s, %(hash)s, %(stream)s, %(allow_query)s)

-- list_all --
-- All tokens by name, without their hashes.
SELECT name, role, stream, allow_query, created_at, revoked_at FROM tokens ORDER BY name, created_at

-- list_page --
-- Tokens by name and age, after one of them.
SELECT name, role, stream, allow_query, created_at, revoked_at FROM tokens
WHERE %(name)s::text IS NULL OR (name, created_at) > (%(name)s, %(created_at)s::timestamptz)
ORDER BY name, created_at LIMIT %(limit)s

-- get_active --
-- A token that is not revoked.
SELECT name, role, hash, stream, allow_query FROM tokens WHERE id = %(id)s AND revoked_at IS NULL

-- revoke --
-- Revoke the active token of a name.
UPDATE tokens SET revoked_at = clock_timestamp() WHERE name = %(name)s AND revoked_at IS NULL
