-- When alerts had begun that receivers were told of: see `sql/schema.sql`.
ALTER TABLE notify_log ADD COLUMN starts jsonb NOT NULL DEFAULT '{}';
