-- list_all --
-- The desired rules, or some of them, by name.
SELECT rule, version, definition::text AS definition, applied_at FROM rules
WHERE %(rules)s::text[] IS NULL OR rule = ANY(%(rules)s) ORDER BY rule

-- list_names --
-- The names of the desired rules.
SELECT rule FROM rules ORDER BY rule

-- list_with_recalls --
-- The desired rules with recalls or stages, by name.
SELECT rule, version, definition::text AS definition, applied_at FROM rules
WHERE coalesce(definition #> '{rule,rules,0,recall}', '{}') <> '{}'
    OR coalesce(definition #> '{rule,rules,0,then}', '[]') <> '[]'
ORDER BY rule

-- list_event_queries --
-- The event query of each desired rule, or what it has in its place, by name.
SELECT rule, coalesce(definition #>> '{rule,rules,0,expr}', definition #>> '{rule,rules,0,stream}')
FROM rules ORDER BY rule

-- put --
-- Add a desired rule, or replace its version and definition.
INSERT INTO rules (rule, version, definition) VALUES (%(rule)s, %(version)s, %(definition)s)
ON CONFLICT (rule) DO UPDATE SET version = excluded.version, definition = excluded.definition,
    applied_at = clock_timestamp()

-- delete --
-- Remove a desired rule.
DELETE FROM rules WHERE rule = %(rule)s

-- raise_revision --
-- Tell the live process that desired rules have changed.
UPDATE rules_revision SET revision = revision + 1

-- lock_revision --
-- Block other changes of desired rules until the transaction ends.
SELECT revision FROM rules_revision FOR UPDATE

-- get_revision --
-- The number of changes of desired rules so far.
SELECT revision FROM rules_revision

-- list_page --
-- Some of the desired rules, with what is known of the versions that run. `settled_to` in microseconds.
WITH cost AS (
    SELECT rule, sum(seconds) AS seconds FROM rule_candidates
    WHERE since >= clock_timestamp() - interval '70 minutes' GROUP BY rule
), listed AS (
    SELECT r.rule, r.version, coalesce(cost.seconds, 0) AS seconds,
        CASE WHEN NOT coalesce((r.definition #>> '{rule,rules,0,enabled}')::boolean, true) THEN 'disabled'
            WHEN d.rule IS NULL OR d.version <> r.version THEN 'not started yet' ELSE d.state END AS state,
        (extract(epoch FROM d.settled_to) * 1000000)::bigint AS settled_to, d.error
    FROM rules r LEFT JOIN deployments d ON d.rule = r.rule AND d.state <> 'stopped'
        LEFT JOIN cost ON cost.rule = r.rule
), page AS (
    SELECT * FROM listed
    WHERE (%(search)s::text IS NULL OR position(lower(%(search)s) IN lower(rule)) > 0)
        AND (%(names)s::text[] IS NULL OR rule = ANY(%(names)s))
        AND (%(state)s::text IS NULL OR state = %(state)s)
    ORDER BY CASE WHEN %(by_cost)s THEN -seconds END, rule LIMIT %(limit)s OFFSET %(offset)s
)
SELECT page.*, lost.rows AS lost, alert.last_fired_at, alert.firing, alert.alerts, task.recalls,
    coalesce(task.seconds, 0) AS recall_seconds
FROM page
LEFT JOIN LATERAL (
    SELECT count(*) AS rows FROM lost_verdicts l WHERE l.rule = page.rule AND l.version = page.version
) lost ON true
LEFT JOIN LATERAL (
    SELECT count(*) AS alerts, count(*) FILTER (WHERE a.state = 'firing') AS firing, max(a.fired_at) AS last_fired_at
    FROM alerts a WHERE a.rule = page.rule AND a.fired_at IS NOT NULL AND a.state <> 'withdrawn'
        AND a.history IS DISTINCT FROM 'withdrawn'
) alert ON true
LEFT JOIN LATERAL (
    SELECT count(*) AS recalls, sum(t.seconds) AS seconds FROM tasks t WHERE t.rule = page.rule
) task ON true
ORDER BY CASE WHEN %(by_cost)s THEN -page.seconds END, page.rule
