-- What became of the last test message to a receiver: see `sql/schema.sql`.
ALTER TABLE receiver_states ADD COLUMN tested_at timestamptz, ADD COLUMN test_error text;
