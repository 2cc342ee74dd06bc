"""Rules that must pass the check: the allowlist is not too narrow for monitoring."""

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from moirae.config.settings import load_settings
from moirae.rules.checks.check import check_rules
from moirae.rules.parse import parse_rules

pytestmark = pytest.mark.services

WORKSPACE = """
streams:
  events:
    columns: {id: bigint, ts: timestamp, day: date, host: string, msg: string, cpu: double, n: int, up: boolean}
    time: ts
    source: {files: landing/*.jsonl}
  ping:
    columns: {at: timestamp, host: string, rtt: double}
    time: at
    source: {files: ping/*.jsonl}
relations:
  hosts: {columns: {host: string, site: string, most: double}, key: [host], source: {file: hosts.csv}}
"""

OF_A_ROW = """
cpu > 90 AND NOT up OR n BETWEEN 1 AND 5
CASE WHEN cpu > 90 THEN 'hot' WHEN cpu IS NULL THEN 'unknown' ELSE 'cold' END = 'hot'
if(cpu > 90, 1, 0) + nvl(n, 0) + coalesce(n, id, 0) + nullif(n, 3) + greatest(n, 1) + least(n, 9) > 3
host IN ('a', 'b') AND msg NOT IN ('x') AND host <=> msg
msg LIKE '%error%' OR msg ILIKE 'ERR%' OR msg RLIKE '^E[0-9]+' OR regexp_like(msg, 'x+')
regexp_extract(msg, '([0-9]+)', 1) <> '' AND regexp_replace(msg, '[0-9]', '#') = '#' AND regexp_count(msg, 'a') > 1
upper(trim(host)) = lower(host) AND length(msg) > 3 AND substr(msg, 1, 3) = left(msg, 3) AND right(msg, 1) = 'x'
concat(host, '/', msg) = concat_ws('/', host, msg) AND split(msg, ' ')[0] = 'a' AND split_part(msg, ':', 1) = 'b'
startswith(msg, 'a') OR endswith(msg, 'b') OR contains(msg, 'c') OR instr(msg, 'd') > 0 OR locate('e', msg) > 0
lpad(host, 5, '0') = rpad(host, 5, '0') OR replace(msg, 'a', 'b') = translate(msg, 'a', 'b') OR reverse(msg) = msg
format_string('%s-%d', host, n) = 'a-1' OR format_number(cpu, 2) = '1.00' OR initcap(msg) = repeat('a', 3)
levenshtein(host, msg) < 3 OR soundex(host) = soundex(msg) OR ascii(host) = 65 OR char(65) = 'A'
abs(cpu) + round(cpu, 1) + floor(cpu) + ceil(cpu) + sqrt(cpu) + pow(cpu, 2) + exp(cpu) + ln(cpu) + log10(cpu) > 1
sin(cpu) + cos(cpu) + atan2(cpu, 1) + degrees(cpu) + pi() + e() + sign(cpu) + cbrt(cpu) + hypot(cpu, 1) > 0
n % 2 = 0 AND mod(n, 3) = 1 AND pmod(n, 4) = 2 AND n div 2 = 1 AND (n & 1) = 1 AND (n | 2) = 3 AND shiftleft(n, 1) = 2
isnan(cpu) OR nanvl(cpu, 0) = 0 OR cpu = double('NaN') OR width_bucket(cpu, 0, 100, 10) > 5
try_cast(msg AS INT) > 3 OR CAST(n AS STRING) = '3' OR n::double > 2.5 OR try_divide(n, 0) IS NULL OR try_add(n, 1) > 0
year(ts) = 2026 AND month(ts) = 1 AND dayofweek(ts) IN (1, 7) AND hour(ts) NOT BETWEEN 8 AND 18 AND minute(ts) > 3
date_trunc('hour', ts) = ts OR date_format(ts, 'HH:mm') = '00:00' OR to_date(ts) = day OR last_day(day) = day
date_add(day, 1) > day AND datediff(day, day) = 0 AND add_months(day, 1) > day AND months_between(ts, ts) = 0
ts + INTERVAL '5' MINUTE > ts AND ts - INTERVAL 1 DAY < ts AND timestampadd(HOUR, 1, ts) > ts
timestampdiff(SECOND, ts, ts + INTERVAL '1' HOUR) > 5 AND unix_timestamp(ts) > 0 AND unix_micros(ts) > 0
to_timestamp(msg, 'yyyy-MM-dd') > TIMESTAMP'2026-01-01 00:00:00' OR make_date(2026, 1, 1) = day
extract(DAY FROM ts) = 1 OR dayname(day) = 'Mon' OR make_timestamp(2026, 1, 1, 0, 0, 0) = ts OR trunc(day, 'MM') = day
from_utc_timestamp(ts, 'Europe/Zurich') > ts OR weekday(day) > 4 OR quarter(day) = 1 OR date_part('WEEK', ts) = 3
exists(array(n, 1), x -> x > 3) AND forall(array(n), x -> x > 0) AND size(filter(array(1, n), x -> x > 1)) > 0
aggregate(array(1, n), 0, (a, x) -> a + x) > 3 AND transform(array(1, 2), (x, i) -> x + i)[0] = 1
array_contains(array('a', host), 'b') OR array_max(array(1, n)) > 3 OR array_join(array(host, msg), ',') = 'a,b'
element_at(map('a', 1, 'b', n), 'a') = 1 OR map_keys(map('a', 1))[0] = 'a' OR cardinality(array(1)) = 1
named_struct('a', n, 'b', host).a = 3 OR struct(n, host).n = 3 OR arrays_overlap(array(1), array(n))
array_sort(array(3, n))[0] = 3 OR sort_array(array(3, n))[0] = 1 OR array_distinct(array(n, n)) = array(1)
get_json_object(msg, '$.a') = 'x' OR from_json(msg, 'a INT').a = 3 OR to_json(struct(n)) = '{}'
json_array_length(msg) > 1 OR schema_of_json('{"a": 1}') = msg OR json_object_keys(msg)[0] = 'a'
md5(msg) = sha2(msg, 256) OR crc32(msg) > 0 OR hash(host) % 10 = 3 OR xxhash64(host, msg) % 100 = 0 OR hex(msg) = 'A'
parse_url(msg, 'HOST') = 'a' OR url_decode(msg) = 'b' OR base64(binary(msg)) = 'c' OR conv(host, 16, 10) = '3'
bit_count(n) > 3 OR bin(n) = '11' OR typeof(n) = 'int' OR str_to_map(msg)['a'] = 'b' OR find_in_set('a', msg) > 0
""".strip().splitlines()
AGGREGATES = """
count(*) > 3 AND count(DISTINCT msg) > 2 AND count_if(cpu > 9) > 1
avg(cpu) > 3 AND sum(n) > 3 AND min(cpu) < 1 AND max(cpu) > 1 AND stddev(cpu) > 1 AND variance(cpu) > 1
percentile(cpu, 0.99) > 90 OR percentile_approx(cpu, 0.5) > 3 OR median(cpu) > 3 OR approx_count_distinct(msg) > 3
sum(n) FILTER (WHERE cpu > 3) > 3 AND max_by(msg, cpu) = 'x' AND min_by(msg, cpu) = 'y'
corr(cpu, n) > 0.9 OR covar_samp(cpu, n) > 1 OR skewness(cpu) > 1 OR kurtosis(cpu) > 1 OR regr_slope(cpu, n) > 1
bool_and(up) OR bool_or(up) OR every(up) OR bit_or(n) > 3 OR mode(n) = 3 OR max(struct(cpu, n)).n > 3
sum(if(cpu > 9, 1, 0)) / count(*) > 0.5 AND max(ts) - min(ts) > INTERVAL '10' SECOND
size(collect_set(host)) >= 0 OR hll_sketch_estimate(hll_sketch_agg(host)) > 3
""".strip().splitlines()
WHOLE = """
SELECT * FROM events WHERE cpu > 90
SELECT e.*, e.cpu - h.most AS over FROM events e JOIN hosts h ON e.host = h.host WHERE e.cpu > h.most
SELECT e.host, e.ts, h.site FROM events e LEFT JOIN hosts h ON e.host = h.host WHERE h.site IS NULL
WITH hot AS (SELECT host, ts, cpu FROM events WHERE cpu > 9) SELECT host, ts FROM hot WHERE cpu < 99
WITH a AS (SELECT host, ts FROM events), b AS (SELECT host, ts FROM a) SELECT DISTINCT host, ts FROM b
SELECT host, ts FROM events WHERE up UNION ALL SELECT host, at AS ts FROM ping WHERE rtt > 1
SELECT host, ts FROM (SELECT host, ts, cpu * 2 AS twice FROM events) WHERE twice > 3
SELECT window.end AS ts, host, count(*) AS n FROM events GROUP BY host, window(ts, '5 minutes')
SELECT window.start AS ts, avg(cpu) AS c FROM events GROUP BY window(ts, '1 hour', '5 minutes') HAVING avg(cpu) > 3
SELECT max(ts) AS ts, host FROM events GROUP BY window(ts, '1 minute'), host HAVING count(*) > 3
SELECT host, ts, 'it''s' AS x, "two" AS y, 1e3 AS z, DATE'2026-01-01' AS d, NULL AS nothing FROM events
""".strip().splitlines()


def _queries() -> list[str]:
    filters = [f"SELECT id, host, ts FROM events WHERE {condition}" for condition in OF_A_ROW]
    values = [f"SELECT id, host, ts, ({condition}) AS held FROM events" for condition in OF_A_ROW]
    windows = [
        f"SELECT host, window.end AS ts FROM events GROUP BY host, window(ts, '1 minute') HAVING "
        f"{condition}"
        for condition in AGGREGATES
    ]
    return [*filters, *values, *windows, *WHOLE]


def test_every_valid_rule_passes_the_check(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "moirae.yaml").write_text(WORKSPACE)
    settings = load_settings(tmp_path / "moirae.yaml", {})
    queries = _queries()
    text = "groups:\n- name: g\n  rules:\n" + "".join(
        f"  - {{alert: R{number}, expr: {json.dumps(query)}}}\n"
        for number, query in enumerate(queries)
    )
    rules, problems = parse_rules("rules.yaml", text, settings.table_names)
    assert not problems
    definitions, check_problems = check_rules(lambda: spark, settings, rules)
    refused = [
        (problem.message, queries[problem.line - 4]) for problem in check_problems if problem.line
    ]
    assert refused == []
    assert len(definitions) == len(queries) > 80


def test_condition_may_ask_for_the_most_frequent_values(
    spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "moirae.yaml").write_text(WORKSPACE)
    settings = load_settings(tmp_path / "moirae.yaml", {})
    text = """
groups:
- name: g
  rules:
  - alert: Hot
    expr: SELECT id, host, ts FROM events WHERE cpu > 90
    recall:
      talkers: {sql: "SELECT top(p.host, 3) FROM ping p WHERE p.rtt > 1", range: 7d}
    where: talkers.host = event.host AND talkers.certain AND talkers.at_most < 100
"""
    rules, problems = parse_rules("rules.yaml", text, settings.table_names)
    assert not problems
    definitions, check_problems = check_rules(lambda: spark, settings, rules)
    assert not check_problems
    assert definitions[0].result_columns["talkers"] == {
        "host": "string",
        "at_least": "bigint",
        "at_most": "bigint",
        "certain": "boolean",
    }
