-- insert --
-- Add messages; returns their numbers in order.
WITH new AS (
    SELECT row_number() OVER () AS place, n.* FROM json_to_recordset(%(rows)s::json) AS n (
        receiver text, group_key text, cause text, status text, content jsonb, alert_count integer, state text))
INSERT INTO notifications (receiver, group_key, cause, status, content, alert_count, state)
SELECT receiver, group_key, cause, status, content, alert_count, state FROM new ORDER BY place RETURNING id

-- insert_alerts --
-- Add which alerts messages name.
INSERT INTO notification_alerts (notification, alert_id, status)
SELECT notification, alert_id, status FROM json_to_recordset(%(rows)s::json) AS new (notification bigint, alert_id uuid, status text)
ON CONFLICT DO NOTHING

-- list_pending --
-- Messages that are not delivered yet, in order.
SELECT id, receiver, group_key, cause, status, content, attempts, created_at FROM notifications
WHERE state = 'pending' AND id > %(after)s ORDER BY id LIMIT %(limit)s

-- list_last --
-- The last delivered messages about groups of the last day that say that alerts fire; none of groups with later ones.
SELECT receiver, group_key, content, created_at FROM (
    SELECT DISTINCT ON (receiver, group_key) receiver, group_key, content, created_at, status, state FROM notifications
    WHERE receiver = ANY(%(receivers)s) AND cause IN ('first', 'change', 'repeat', 'update', 'refined')
      AND created_at > clock_timestamp() - interval '1 day'
    ORDER BY receiver, group_key, id DESC) AS last
WHERE status = 'firing' AND state = 'delivered' ORDER BY created_at LIMIT %(limit)s

-- list_threads --
-- By which receivers know the last first message of each group.
SELECT DISTINCT ON (receiver, group_key) receiver, group_key, thread FROM notifications
WHERE thread IS NOT NULL AND created_at > clock_timestamp() - interval '30 days' ORDER BY receiver, group_key, id DESC

-- record --
-- What became of attempts to deliver messages.
UPDATE notifications SET state = new.state, attempts = notifications.attempts + new.attempts, error = new.error,
    thread = coalesce(new.thread, notifications.thread),
    ended_at = CASE WHEN new.state IN ('delivered', 'failed') THEN clock_timestamp() END
FROM json_to_recordset(%(rows)s::json) AS new (id bigint, state text, attempts integer, error text, thread text)
WHERE notifications.id = new.id AND notifications.state = 'pending'

-- list_folded --
-- Messages that wait to be counted in a summary.
SELECT id, cause, content FROM notifications
WHERE receiver = %(receiver)s AND state = 'folded' AND summary IS NULL ORDER BY id LIMIT %(limit)s

-- list_folded_receivers --
-- Receivers with messages that wait to be counted in a summary.
SELECT DISTINCT receiver FROM notifications WHERE state = 'folded' AND summary IS NULL

-- set_summary --
-- Count messages in a summary.
UPDATE notifications SET summary = %(summary)s WHERE id = ANY(%(ids)s)

-- count_recent --
-- Messages of each receiver since a time that were not folded.
SELECT receiver, array_agg(created_at ORDER BY created_at) AS times FROM notifications
WHERE created_at > %(since)s AND state <> 'folded' GROUP BY receiver

-- list_newest --
-- Messages, newest first.
SELECT n.id, n.receiver, n.group_key, n.cause, n.status, n.alert_count, n.state, n.attempts, n.created_at, n.ended_at, n.error, n.summary
FROM notifications n
WHERE (%(receiver)s::text IS NULL OR n.receiver = %(receiver)s)
  AND (%(alert_id)s::uuid IS NULL OR EXISTS (SELECT FROM notification_alerts a WHERE a.notification = n.id AND a.alert_id = %(alert_id)s))
  AND (%(before)s::bigint IS NULL OR n.id < %(before)s)
ORDER BY n.id DESC LIMIT %(limit)s

-- list_deliveries --
-- When receivers took the first messages about alerts, or the summaries that count them.
SELECT a.alert_id, n.receiver,
    min(coalesce(s.ended_at, n.ended_at)) FILTER (WHERE a.status = 'firing') AS firing_at,
    min(coalesce(s.ended_at, n.ended_at)) FILTER (WHERE a.status = 'resolved') AS resolved_at
FROM notification_alerts a JOIN notifications n ON n.id = a.notification LEFT JOIN notifications s ON s.id = n.summary
WHERE a.alert_id = ANY(%(alert_ids)s) AND coalesce(s.state, n.state) = 'delivered'
GROUP BY a.alert_id, n.receiver ORDER BY a.alert_id, n.receiver

-- list_group_keys --
-- Groups about which a receiver was sent messages.
SELECT DISTINCT group_key FROM notifications
WHERE receiver = %(receiver)s AND cause NOT IN ('summary', 'unsent') AND created_at > clock_timestamp() - interval '30 days'

-- list_unacknowledged --
-- The alerts of the last message about a group that fire and nobody has acknowledged.
SELECT a.id FROM notification_alerts m JOIN alerts a ON a.id = m.alert_id
WHERE m.notification = (SELECT max(id) FROM notifications WHERE receiver = %(receiver)s AND group_key = %(group_key)s AND status = 'firing'
      AND (%(before)s::timestamptz IS NULL OR created_at <= %(before)s))
  AND m.status = 'firing' AND a.ends_at IS NULL
  AND NOT EXISTS (SELECT FROM alert_notes n WHERE n.alert_id = a.id AND n.kind = 'ack')
ORDER BY a.id

-- count_by_state --
-- Messages that are not delivered, by receiver.
SELECT receiver, count(*) FILTER (WHERE state = 'pending') AS pending, count(*) FILTER (WHERE state = 'failed') AS failed
FROM notifications WHERE state IN ('pending', 'failed') GROUP BY receiver

-- delete_old --
-- Delete messages some time after their end.
DELETE FROM notifications WHERE id IN (
    SELECT id FROM notifications WHERE created_at < clock_timestamp() - %(min_age)s::interval AND state <> 'pending' LIMIT %(limit)s)

-- list_states --
-- Receivers with their last delivery and failures.
SELECT receiver, delivered_at, failing_since, failures, error, unread_since, unread_error, tested_at, test_error
FROM receiver_states ORDER BY receiver

-- put_delivery --
-- A receiver has taken a message.
INSERT INTO receiver_states (receiver, delivered_at) VALUES (%(receiver)s, clock_timestamp())
ON CONFLICT (receiver) DO UPDATE SET delivered_at = clock_timestamp(), failing_since = NULL, failures = 0, error = NULL

-- put_failure --
-- A receiver has not taken messages.
INSERT INTO receiver_states (receiver, failing_since, failures, error)
VALUES (%(receiver)s, clock_timestamp(), %(failures)s, %(error)s)
ON CONFLICT (receiver) DO UPDATE SET failing_since = coalesce(receiver_states.failing_since, clock_timestamp()),
    failures = receiver_states.failures + %(failures)s, error = %(error)s

-- put_test --
-- A test message was sent to a receiver.
INSERT INTO receiver_states (receiver, tested_at, test_error) VALUES (%(receiver)s, clock_timestamp(), %(error)s)
ON CONFLICT (receiver) DO UPDATE SET tested_at = clock_timestamp(), test_error = %(error)s

-- put_unread --
-- The acknowledgements of a receiver cannot be read.
INSERT INTO receiver_states (receiver, unread_since, unread_error) VALUES (%(receiver)s, clock_timestamp(), %(error)s)
ON CONFLICT (receiver) DO UPDATE SET unread_since = coalesce(receiver_states.unread_since, clock_timestamp()), unread_error = %(error)s

-- clear_unread --
-- The acknowledgements of receivers can be read, or are not.
UPDATE receiver_states SET unread_since = NULL, unread_error = NULL
WHERE receiver = ANY(%(receivers)s) AND unread_since IS NOT NULL

-- delete_other_states --
-- Forget receivers that are no longer declared.
DELETE FROM receiver_states WHERE receiver <> ALL(%(receivers)s)
