-- Since when acknowledgements of a receiver cannot be read: see `sql/schema.sql`.
ALTER TABLE receiver_states ADD COLUMN unread_since timestamptz, ADD COLUMN unread_error text;
