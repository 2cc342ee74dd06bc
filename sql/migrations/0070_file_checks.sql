-- Checks of data files in the background: see `sql/schema.sql`.
CREATE TABLE file_checks (
    table_name text NOT NULL,
    path       text NOT NULL,
    digest     text,
    checked_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    problem    text,
    PRIMARY KEY (table_name, path)
);
CREATE INDEX file_checks_problems ON file_checks (table_name) WHERE problem IS NOT NULL;
