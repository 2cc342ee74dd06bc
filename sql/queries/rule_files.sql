-- request_reload --
-- Request a reload of the rule files; return the number of the request.
UPDATE rule_files SET asked = asked + 1 RETURNING asked

-- get_state --
-- The state of the rule files: requests, and the result of the last check.
SELECT asked AS last_request, answered AS last_served, digest, looked_at, problems, revision FROM rule_files

-- begin_check --
-- Record the start of a check; return how many checks of the same files started and never ended.
UPDATE rule_files SET tries = CASE WHEN checking = %(digest)s THEN tries + 1 ELSE 1 END, checking = %(digest)s
RETURNING tries - 1

-- record_check --
-- Record the result of a check, which serves all requests up to a number.
UPDATE rule_files SET answered = greatest(answered, %(request)s), digest = %(digest)s, problems = %(problems)s,
    revision = %(revision)s, looked_at = clock_timestamp(), checking = NULL, tries = 0
