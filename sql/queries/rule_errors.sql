-- put --
-- Record an error of a rule; the same error again is counted.
INSERT INTO rule_errors (rule, version, kind, message, event, times)
VALUES (%(rule)s, %(version)s, %(kind)s, %(message)s, %(event)s, %(times)s)
ON CONFLICT (rule, version, kind, md5(message || coalesce(event::text, ''))) DO UPDATE
    SET times = rule_errors.times + excluded.times, last_at = clock_timestamp()

-- delete_oldest --
-- Delete the errors of a rule except the newest ones.
DELETE FROM rule_errors WHERE id IN
    (SELECT id FROM rule_errors WHERE rule = %(rule)s ORDER BY last_at DESC, id DESC OFFSET %(retained)s)

-- list_newest --
-- The errors of one rule or of all rules, newest first.
SELECT rule, version, kind, message, event, times, first_at, last_at FROM rule_errors
WHERE %(rule)s::text IS NULL OR rule = %(rule)s ORDER BY last_at DESC, id DESC
