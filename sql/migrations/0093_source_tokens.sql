-- Tokens that only post data, perhaps of one stream: see `sql/schema.sql`.
ALTER TABLE tokens DROP CONSTRAINT tokens_role_check;
ALTER TABLE tokens ADD CONSTRAINT tokens_role_check
    CHECK (role IN ('source', 'viewer', 'operator', 'admin'));
ALTER TABLE tokens ADD COLUMN stream text CHECK (stream IS NULL OR role = 'source');
