-- The columns and keys with which the rows of relations are stored.
CREATE TABLE relation_declarations (
    relation text PRIMARY KEY,
    columns  jsonb NOT NULL,
    key      text[] NOT NULL
);
