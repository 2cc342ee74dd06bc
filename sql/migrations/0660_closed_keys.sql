-- Event time closed for single keys: see `sql/schema.sql`.
CREATE TABLE closed_keys (
    stream    text NOT NULL,
    partition text NOT NULL,
    columns   text[] NOT NULL,
    key       text[] NOT NULL,
    closed    timestamptz NOT NULL,
    PRIMARY KEY (stream, partition, columns, key)
);
