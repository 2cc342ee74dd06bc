-- Tokens of viewers that may ask the history: see `sql/schema.sql`.
ALTER TABLE tokens ADD COLUMN allow_query boolean NOT NULL DEFAULT false
    CHECK (NOT allow_query OR role = 'viewer');
