-- Resolutions with an effect and a link, and names of tags: see `sql/schema.sql`.
ALTER TABLE alert_notes
    ADD COLUMN effect text CHECK (effect IN ('no action needed', 'did not help', 'superseded')),
    ADD COLUMN superseded_by text,
    ADD COLUMN link text,
    ADD COLUMN recorded_tag text;
ALTER TABLE alert_notes
    ADD COLUMN remedy text GENERATED ALWAYS AS (CASE effect WHEN 'did not help' THEN NULL WHEN 'superseded' THEN superseded_by
        WHEN 'no action needed' THEN coalesce(tag, effect) ELSE tag END) STORED;
CREATE INDEX alert_notes_by_tag ON alert_notes (tag) WHERE tag IS NOT NULL;
CREATE VIEW remedies AS
SELECT DISTINCT ON (alert_id) alert_id, id, remedy AS tag, tag AS tried, effect, superseded_by, at FROM alert_notes
WHERE kind = 'resolution' AND (tag IS NOT NULL OR effect IS NOT NULL) ORDER BY alert_id, at DESC, id DESC;
CREATE TABLE tag_names (
    old_tag text PRIMARY KEY,
    tag text NOT NULL,
    author text NOT NULL,
    at timestamptz NOT NULL DEFAULT clock_timestamp()
);
