-- Topics are known by their ids; records that were lost before they were read; tombstones; sources
-- that cannot be read.
CREATE TABLE topics (
    id       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    stream   text NOT NULL,
    number   integer NOT NULL,
    name     text,
    topic_id text,
    servers  text,
    cluster  text,
    current  boolean NOT NULL,
    since    timestamptz NOT NULL DEFAULT clock_timestamp(),
    UNIQUE (stream, number)
);
CREATE UNIQUE INDEX topics_current ON topics (stream) WHERE current;

-- Earlier versions did not store which topic they have read: the names of source units tell it.
INSERT INTO topics (stream, number, name, current)
SELECT p.stream, 1, (
    SELECT split_part(u.unit, '/', 1) FROM units u
    WHERE u.stream = p.stream AND u.unit ~ '^[^/]+/[0-9]+/[0-9]+-[0-9]+$'
    ORDER BY u.id DESC LIMIT 1), true
FROM (SELECT DISTINCT stream FROM partitions) p;

ALTER TABLE partitions ADD COLUMN topic bigint REFERENCES topics (id) ON DELETE CASCADE;
ALTER TABLE partitions ADD COLUMN end_offset bigint;
UPDATE partitions p SET topic = t.id FROM topics t WHERE t.stream = p.stream;
ALTER TABLE partitions DROP CONSTRAINT partitions_pkey;
ALTER TABLE partitions DROP COLUMN stream;
ALTER TABLE partitions ALTER COLUMN topic SET NOT NULL;
ALTER TABLE partitions ADD PRIMARY KEY (topic, partition);

CREATE TABLE lost_records (
    id              bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    stream          text NOT NULL,
    topic           text NOT NULL,
    partition       text NOT NULL,
    first_offset    bigint NOT NULL,
    last_offset     bigint,
    reason          text NOT NULL CHECK (reason IN ('deleted', 'recreated', 'truncated')),
    noticed_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    acknowledged_at timestamptz
);
CREATE INDEX lost_records_open ON lost_records (stream) WHERE acknowledged_at IS NULL;

CREATE TABLE source_errors (
    stream text PRIMARY KEY,
    kind   text NOT NULL CHECK (kind IN ('away', 'missing', 'failed')),
    error  text NOT NULL,
    since  timestamptz NOT NULL DEFAULT clock_timestamp()
);

ALTER TABLE units ADD COLUMN tombstones bigint NOT NULL DEFAULT 0;
