-- add --
-- Store a model.
INSERT INTO learned_models (rule, version, recall, learned_until, resolutions, arrays, format)
VALUES (%(rule)s, %(version)s, %(recall)s, %(learned_until)s, %(resolutions)s, %(arrays)s,
    %(format)s) RETURNING id

-- find_usable --
-- The newest model of a recall, of a format, that has learned from no event at or after a time.
SELECT id, learned_until, resolutions FROM learned_models
WHERE rule = %(rule)s AND version = %(version)s AND recall = %(recall)s AND learned_until < %(before)s
    AND format = %(format)s
ORDER BY id DESC LIMIT 1

-- get_arrays --
-- The arrays of a model.
SELECT arrays FROM learned_models WHERE id = %(id)s

-- delete_superseded --
-- Delete models of a recall that no answer names, except the last of each day, for recalls about past events. A task
-- may be about to name a model that was the newest a moment ago.
DELETE FROM learned_models m
WHERE m.rule = %(rule)s AND m.version = %(version)s AND m.recall = %(recall)s
    AND m.built_at < clock_timestamp() - interval '10 minutes'
    AND EXISTS (SELECT FROM learned_models n
        WHERE n.rule = m.rule AND n.version = m.version AND n.recall = m.recall AND n.id > m.id
            AND date_trunc('day', n.built_at) = date_trunc('day', m.built_at))
    AND NOT EXISTS (SELECT FROM tasks t WHERE t.model = m.id)
