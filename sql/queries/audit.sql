-- insert --
-- A change by an operator.
INSERT INTO audit (author, via, operation, arguments)
VALUES (%(author)s, %(via)s, %(operation)s, %(arguments)s)

-- list_newest --
-- Changes, newest first. `before`: only those with a lower number.
SELECT id, at, author, via, operation, arguments FROM audit
WHERE (%(author)s::text IS NULL OR author = %(author)s)
  AND (%(operation)s::text IS NULL OR operation = %(operation)s)
  AND (%(before)s::bigint IS NULL OR id < %(before)s)
ORDER BY id DESC LIMIT %(limit)s

-- insert_request --
-- The idempotency key of a change, unless the author has used it.
INSERT INTO requests (author, key, operation, digest) VALUES (%(author)s, %(key)s, %(operation)s, %(digest)s)
ON CONFLICT (author, key) DO NOTHING

-- record_response --
-- The response of a change under its idempotency key.
UPDATE requests SET response = %(response)s WHERE author = %(author)s AND key = %(key)s

-- get_request --
-- The change under an idempotency key.
SELECT operation, digest, response FROM requests WHERE author = %(author)s AND key = %(key)s

-- delete_expired_requests --
-- Delete idempotency keys older than 7 days.
DELETE FROM requests WHERE at < clock_timestamp() - interval '7 days'
