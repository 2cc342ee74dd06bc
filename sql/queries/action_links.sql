-- insert --
-- Add links.
INSERT INTO action_links (digest, alert_id, action, receiver, expires_at)
SELECT decode(digest, 'hex'), alert_id, action, receiver, expires_at
FROM json_to_recordset(%(rows)s::json) AS new (digest text, alert_id uuid, action text, receiver text, expires_at timestamptz)

-- get --
-- A link with its alert.
SELECT l.alert_id, l.action, l.receiver, l.expires_at, l.used_at, l.revoked_at, a.labels, a.key, a.annotations,
    a.starts_at, a.ends_at
FROM action_links l JOIN alerts a ON a.id = l.alert_id WHERE l.digest = %(digest)s

-- use --
-- Use a link that is open.
UPDATE action_links SET used_at = clock_timestamp()
WHERE digest = %(digest)s AND used_at IS NULL AND revoked_at IS NULL AND expires_at > clock_timestamp()

-- revoke --
-- Have open links of a receiver, of an alert, or both, act no more.
UPDATE action_links SET revoked_at = clock_timestamp()
WHERE used_at IS NULL AND revoked_at IS NULL AND expires_at > clock_timestamp()
  AND (%(receiver)s::text IS NULL OR receiver = %(receiver)s) AND (%(alert_id)s::uuid IS NULL OR alert_id = %(alert_id)s)

-- delete_old --
-- Delete links some time after their end.
DELETE FROM action_links WHERE digest IN (
    SELECT digest FROM action_links WHERE expires_at < clock_timestamp() - %(min_age)s::interval LIMIT %(limit)s)
