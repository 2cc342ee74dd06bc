-- Records that close event time: see `sql/schema.sql`.
ALTER TABLE units ADD COLUMN punctuations bigint NOT NULL DEFAULT 0;
