-- Since when rules of absence can miss a row: the event time of a stream's first row.
ALTER TABLE streams ADD COLUMN first timestamptz;
