-- insert --
-- A session of a token that is not revoked.
INSERT INTO sessions (hash, token, expires_at)
SELECT %(hash)s, id, clock_timestamp() + make_interval(secs => %(seconds)s) FROM tokens
WHERE id = %(token)s AND revoked_at IS NULL

-- find --
-- The token of a session that has not ended.
SELECT t.id, t.name, t.role, t.allow_query, s.expires_at FROM sessions s JOIN tokens t ON t.id = s.token
WHERE s.hash = %(hash)s AND s.expires_at > clock_timestamp() AND t.revoked_at IS NULL

-- delete --
-- End a session.
DELETE FROM sessions WHERE hash = %(hash)s

-- insert_code --
-- A one-time code for the active token of a name.
INSERT INTO login_codes (hash, token, expires_at)
SELECT %(hash)s, id, clock_timestamp() + make_interval(secs => %(seconds)s) FROM tokens
WHERE name = %(name)s AND revoked_at IS NULL

-- take_code --
-- Delete a one-time code; returns its token, unless the code has expired.
WITH taken AS (DELETE FROM login_codes WHERE hash = %(hash)s RETURNING token, expires_at)
SELECT token FROM taken WHERE expires_at > clock_timestamp()

-- delete_expired --
-- Delete sessions and codes that have ended.
WITH codes AS (DELETE FROM login_codes WHERE expires_at < clock_timestamp())
DELETE FROM sessions WHERE expires_at < clock_timestamp()
