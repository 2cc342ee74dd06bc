-- Recalls that exceeded a time limit are tried again later; what their queries waited for is not charged.
ALTER TABLE tasks ADD COLUMN IF NOT EXISTS timeouts integer NOT NULL DEFAULT 0;
ALTER TABLE tasks ADD COLUMN IF NOT EXISTS put_offs integer NOT NULL DEFAULT 0;
ALTER TABLE tasks ADD COLUMN IF NOT EXISTS retry_at timestamptz;
ALTER TABLE tasks ADD COLUMN IF NOT EXISTS delayed double precision NOT NULL DEFAULT 0;
