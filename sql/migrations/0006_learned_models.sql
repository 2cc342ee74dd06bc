-- Models of the measure `learned`: which model a comparison uses, and the tags that an answer expects.
CREATE TABLE learned_models (
    id            bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    rule          text NOT NULL,
    version       text NOT NULL,
    recall        text NOT NULL,
    learned_until bigint NOT NULL,
    resolutions   integer NOT NULL,
    arrays        bytea NOT NULL,
    built_at      timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX learned_models_recall ON learned_models (rule, version, recall, id DESC);

ALTER TABLE tasks ADD COLUMN model bigint;
ALTER TABLE revisions ADD COLUMN forecast jsonb;
