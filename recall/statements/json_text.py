"""A function of DuckDB that gives the text that Spark's get_json_object gives.

Its argument is a JSON object as the archive writes it: well-formed, each field once. Where the two
engines may write a value differently, it raises an error, and Spark runs the statement: numbers
that one of them writes with an exponent or rounds, objects and arrays that hold such numbers or
escaped characters.
"""

# As both write it: at most 15 digits, and not below 0.001.
_PLAIN_FRACTION = r"-?(0\.0{0,2}[1-9]\d{0,11}|[1-9]\d{0,6}\.\d{1,8}|0\.0)"
_DIGITS = r"-?\d+"
# Of an object or array: an escaped character, or a number that is not whole. Also in a string.
_DIFFERENT_PART = r"\\|\d[.eE]"

CREATE_JSON_TEXT = f"""
CREATE TEMP MACRO _json_text(json_object, json_path) AS
CASE json_type(json_object, json_path)
WHEN 'DOUBLE' THEN CASE
    WHEN regexp_full_match(
        json_extract_string(json_object, json_path), '{_PLAIN_FRACTION}|{_DIGITS}'
    ) THEN json_extract_string(json_object, json_path)
    ELSE error('number: ' || json_extract_string(json_object, json_path)) END
WHEN 'OBJECT' THEN CASE
    WHEN regexp_matches(json_extract_string(json_object, json_path), '{_DIFFERENT_PART}')
    THEN error('object: ' || json_extract_string(json_object, json_path))
    ELSE json_extract_string(json_object, json_path) END
WHEN 'ARRAY' THEN CASE
    WHEN regexp_matches(json_extract_string(json_object, json_path), '{_DIFFERENT_PART}')
    THEN error('array: ' || json_extract_string(json_object, json_path))
    ELSE json_extract_string(json_object, json_path) END
ELSE json_extract_string(json_object, json_path) END
"""
