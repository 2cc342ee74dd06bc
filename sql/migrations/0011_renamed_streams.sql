-- Streams that are being renamed, and the lateness under which they were read. Names of files in the
-- ledger are printable.
ALTER TABLE streams ADD COLUMN renamed_to text;
ALTER TABLE streams ADD COLUMN lateness bigint;

DO $$
DECLARE
    hidden text;
BEGIN
    UPDATE units SET unit = regexp_replace(unit, '\\(?=x[0-9a-f]{2})', '\\x5c', 'g')
    WHERE unit ~ '\\x[0-9a-f]{2}';
    FOR hidden IN
        SELECT DISTINCT character FROM units, regexp_split_to_table(unit, '') AS character
        WHERE unit ~ '[\u0001-\u001f\u007f-\u009f\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]'
          AND character
              ~ '[\u0001-\u001f\u007f-\u009f\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]'
    LOOP
        UPDATE units SET unit = replace(unit, hidden,
            regexp_replace(encode(convert_to(hidden, 'UTF8'), 'hex'), '(..)', '\\x\1', 'g'))
        WHERE strpos(unit, hidden) > 0;
    END LOOP;
END $$;
