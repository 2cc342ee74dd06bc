-- put --
-- A new token.
INSERT INTO tokens (id, name, role, hash) VALUES (%(id)s, %(name)s, %(role)s, %(hash)s)

-- tokens --
-- All tokens, without what would let one in.
SELECT name, role, created_at, revoked_at FROM tokens ORDER BY name, created_at

-- token --
-- The role and hash of a token that holds.
SELECT role, hash FROM tokens WHERE id = %(id)s AND revoked_at IS NULL

-- revoke --
-- A token holds no more.
UPDATE tokens SET revoked_at = clock_timestamp() WHERE name = %(name)s AND revoked_at IS NULL
