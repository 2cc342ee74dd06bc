-- Recalls that may have read alerts before these were settled: see `sql/schema.sql`.
CREATE TABLE unsettled_reads (task uuid PRIMARY KEY REFERENCES tasks (id) ON DELETE CASCADE);
