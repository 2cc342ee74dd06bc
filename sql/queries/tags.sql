-- list_tried --
-- Alerts whose last resolution has a tag or says that no action was needed, by its time. `next_at`: when the next alert of
-- the same key that fired began.
WITH tagged AS (
    SELECT a.rule, a.fingerprint, coalesce(n.tried, n.tag) AS tag, n.effect, n.superseded_by, n.at, a.id, a.ends_at
    FROM remedies n JOIN alerts a ON a.id = n.alert_id
    WHERE coalesce(n.tried, n.tag) IS NOT NULL
        AND (%(rule)s::text IS NULL OR a.rule = %(rule)s OR a.rule LIKE '%%/' || %(rule)s)
), fired AS (
    SELECT id, lead(starts_at) OVER (PARTITION BY rule, fingerprint ORDER BY starts_at, id) AS next_at FROM alerts
    WHERE (rule, fingerprint) IN (SELECT rule, fingerprint FROM tagged) AND fired_at IS NOT NULL AND state <> 'withdrawn'
        AND history IS DISTINCT FROM 'withdrawn'
)
SELECT t.rule, t.tag, t.effect, t.superseded_by, t.at, t.ends_at, f.next_at
FROM tagged t LEFT JOIN fired f ON f.id = t.id ORDER BY t.at, t.id

-- list_names --
-- Tags that have another name.
SELECT old_tag, tag, author, at FROM tag_names ORDER BY at, old_tag

-- count --
-- How many notes have a tag, or name it as what supersedes another.
SELECT count(*) FROM alert_notes WHERE tag = %(tag)s OR superseded_by = %(tag)s

-- lock --
-- Let tags be renamed one after the other.
LOCK TABLE tag_names IN SHARE ROW EXCLUSIVE MODE

-- rename_notes --
-- Give the notes of a tag another one; they keep the one that was recorded.
UPDATE alert_notes SET tag = %(new)s, recorded_tag = nullif(coalesce(recorded_tag, tag), %(new)s) WHERE tag = %(old)s

-- rename_superseding --
UPDATE alert_notes SET superseded_by = %(new)s WHERE superseded_by = %(old)s

-- clear_superseded_by_itself --
-- A fix is not superseded by one that has become the same.
UPDATE alert_notes SET effect = NULL, superseded_by = NULL WHERE superseded_by = %(tag)s AND tag = %(tag)s

-- rename_shown --
-- Forecasts that were shown are compared with the tags of later resolutions: the shares of the old name count for the new.
UPDATE shown_forecasts SET shares = jsonb_set(shares #- ARRAY['tags', %(old)s], ARRAY['tags', %(new)s], jsonb_build_array(
    coalesce((shares->'tags'->%(old)s->>0)::float8, 0) + coalesce((shares->'tags'->%(new)s->>0)::float8, 0),
    coalesce((shares->'tags'->%(old)s->>1)::float8, 0) + coalesce((shares->'tags'->%(new)s->>1)::float8, 0)))
WHERE jsonb_exists(shares->'tags', %(old)s)

-- rename_names --
-- Names that led to the old name lead to the new one.
UPDATE tag_names SET tag = %(new)s WHERE tag = %(old)s

-- put_name --
INSERT INTO tag_names (old_tag, tag, author) VALUES (%(old)s, %(new)s, %(author)s)
ON CONFLICT (old_tag) DO UPDATE SET tag = excluded.tag, author = excluded.author, at = clock_timestamp()

-- delete_name --
-- A tag that is in use leads to no other one.
DELETE FROM tag_names WHERE old_tag = %(tag)s
