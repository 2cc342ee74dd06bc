-- add --
-- Add the rows of some rules to those of the current ten minutes.
INSERT INTO rule_candidates (rule, since, candidates, matches, seconds)
SELECT rule, date_bin('10 minutes', clock_timestamp(), 'epoch'), candidates, matches, seconds
FROM json_to_recordset(%(rows)s::json)
    AS r (rule text, candidates bigint, matches bigint, seconds double precision)
ON CONFLICT (rule, since) DO UPDATE
    SET candidates = rule_candidates.candidates + excluded.candidates,
        matches = rule_candidates.matches + excluded.matches,
        seconds = rule_candidates.seconds + excluded.seconds

-- delete_old --
-- Delete what is older than an hour.
DELETE FROM rule_candidates WHERE since < clock_timestamp() - interval '70 minutes'

-- get_last_hour --
-- The rows of a rule in the last hour, to ten minutes.
SELECT coalesce(sum(candidates), 0)::bigint AS candidates, coalesce(sum(matches), 0)::bigint AS matches
FROM rule_candidates WHERE rule = %(rule)s AND since >= clock_timestamp() - interval '70 minutes'
