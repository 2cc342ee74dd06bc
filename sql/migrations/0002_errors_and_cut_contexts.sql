-- Errors of processes and of the sources of relations; contexts that are cut at their row limit; the match probability
-- of a similarity answer. IF NOT EXISTS: databases of unreleased versions between 0.1.0 and this migration have them.
ALTER TABLE processes ADD COLUMN IF NOT EXISTS error text;
ALTER TABLE processes ADD COLUMN IF NOT EXISTS failed_at timestamptz;

CREATE TABLE IF NOT EXISTS relation_errors (
    relation text PRIMARY KEY,
    error    text NOT NULL,
    at       timestamptz NOT NULL DEFAULT clock_timestamp()
);

ALTER TABLE contexts ADD COLUMN IF NOT EXISTS cut jsonb;
CREATE INDEX IF NOT EXISTS contexts_cut ON contexts (rule) WHERE cut IS NOT NULL;

ALTER TABLE revisions ADD COLUMN IF NOT EXISTS comparable double precision;

-- Replaced by schema_migrations.
DROP TABLE schema_version;
