-- list_all --
-- All that failed, set aside or not, the longest first.
SELECT kind, stream, name, reason, fingerprint, tries, first_failed_at, last_failed_at, set_aside_at,
    retry_requested
FROM set_aside ORDER BY first_failed_at, kind, stream, name

-- put --
-- Store a failure in place of the previous one of the same subject.
INSERT INTO set_aside (kind, stream, name, reason, fingerprint, tries, first_failed_at,
    last_failed_at, set_aside_at)
VALUES (%(kind)s, %(stream)s, %(name)s, %(reason)s, %(fingerprint)s, %(tries)s,
    %(first_failed_at)s, %(last_failed_at)s, %(set_aside_at)s)
ON CONFLICT (kind, stream, name) DO UPDATE SET reason = excluded.reason,
    fingerprint = excluded.fingerprint, tries = excluded.tries,
    first_failed_at = excluded.first_failed_at, last_failed_at = excluded.last_failed_at,
    set_aside_at = excluded.set_aside_at, retry_requested = false

-- delete --
-- Forget the failures of a subject.
DELETE FROM set_aside WHERE kind = %(kind)s AND stream = %(stream)s AND name = %(name)s

-- request_retry --
-- Request that what matches is tried again at once.
UPDATE set_aside SET retry_requested = true
WHERE (%(kind)s::text IS NULL OR kind = %(kind)s::text)
  AND (%(stream)s::text IS NULL OR stream = %(stream)s::text)
  AND (%(name)s::text IS NULL OR name = %(name)s::text)
RETURNING kind, stream, name
