"""Queries that need all rows, over streams `cpu`, `jobs` and `logs` and the relation `hosts`."""

QUERIES = {
    # joins
    "three streams": (
        "SELECT c.host AS host, j.job AS job, count(*) AS n, max(l.line) AS line FROM cpu c"
        " JOIN jobs j ON j.host = c.host AND j.ts BETWEEN c.ts - INTERVAL 5 MINUTES AND "
        "c.ts JOIN logs l ON l.host = c.host AND l.ts > j.ts AND l.ts < j.ts + INTERVAL 10 "
        "MINUTES GROUP BY c.host, j.job"
    ),
    "self join": (
        "SELECT a.host AS host, max(b.v - a.v) AS rise FROM cpu a JOIN cpu b ON a.host = "
        "b.host AND b.ts > a.ts AND b.ts <= a.ts + INTERVAL '10' MINUTE WHERE a.host <> "
        "event.host GROUP BY a.host"
    ),
    "full join": (
        "SELECT a.host AS ah, b.host AS bh, a.n AS n, b.m AS m FROM (SELECT host, count(*) "
        "AS n FROM cpu WHERE v > 5 GROUP BY host) a FULL JOIN (SELECT host, count(*) AS m "
        "FROM jobs WHERE n > event.level GROUP BY host) b ON a.host = b.host"
    ),
    "full join using": (
        "SELECT host, a.n AS n, b.m AS m FROM (SELECT host, count(*) AS n FROM cpu WHERE v "
        "> 18 GROUP BY host) a FULL OUTER JOIN (SELECT host, count(*) AS m FROM jobs WHERE "
        "n > 6 GROUP BY host) b USING (host)"
    ),
    "full join of three": (
        "SELECT coalesce(a.host, b.host, c.host) AS host, a.v AS v, b.n AS n, c.line AS "
        "line FROM (SELECT host, max(v) AS v FROM cpu WHERE host = event.host GROUP BY "
        "host) a FULL JOIN (SELECT host, max(n) AS n FROM jobs WHERE host <> 'c' GROUP BY "
        "host) b ON a.host = b.host FULL JOIN (SELECT host, max(line) AS line FROM logs "
        "GROUP BY host) c ON c.host = coalesce(a.host, b.host)"
    ),
    "full join aggregated": (
        "SELECT count(*) AS n, count(a.v) AS m, sum(b.n) AS s, event.level AS l FROM cpu a "
        "FULL JOIN jobs b ON a.host = b.host AND a.n = b.n AND b.n > event.level"
    ),
    "right join": (
        "SELECT j.job AS job, count(c.v) AS n, count(*) AS m FROM cpu c RIGHT JOIN jobs j "
        "ON j.host = c.host AND c.ts BETWEEN j.ts AND j.ts + INTERVAL 2 MINUTES WHERE j.n >"
        " 2 GROUP BY j.job"
    ),
    "right join of relation": (
        "SELECT h.host AS host, h.site AS site, count(c.v) AS n FROM cpu c RIGHT JOIN hosts"
        " h ON h.host = c.host AND c.v > 20 GROUP BY h.host, h.site"
    ),
    "right then left": (
        "SELECT h.host AS host, count(c.v) AS n, count(l.line) AS m FROM cpu c RIGHT JOIN "
        "hosts h ON h.host = c.host AND c.host = event.host LEFT JOIN logs l ON l.host = "
        "h.host AND l.line LIKE 'GET%' GROUP BY h.host"
    ),
    "right join of stream": (
        "SELECT h.site AS site, avg(c.v) AS mean FROM hosts h RIGHT JOIN cpu c ON c.host = "
        "h.host GROUP BY h.site"
    ),
    "cross join": (
        "SELECT count(*) AS n FROM (SELECT DISTINCT host FROM cpu) a CROSS JOIN (SELECT "
        "DISTINCT job FROM jobs WHERE host = event.host) b"
    ),
    "left anti join": (
        "SELECT c.host AS host, count(*) AS n FROM cpu c LEFT ANTI JOIN jobs j ON j.host = "
        "c.host AND j.n = c.n GROUP BY c.host"
    ),
    "semi join": (
        "SELECT c.host AS host, count(*) AS n FROM cpu c LEFT SEMI JOIN jobs j ON j.host = "
        "c.host AND j.n = c.n GROUP BY c.host"
    ),
    "null safe": (
        "SELECT count(*) AS n FROM cpu a JOIN jobs b ON a.host <=> b.host AND a.n <=> b.n"
    ),
    "using": ("SELECT host, count(*) AS n FROM cpu JOIN jobs USING (host) GROUP BY host"),
    "as of join": (
        "SELECT x.host AS host, x.ts AS ts, x.job AS job FROM (SELECT c.host, c.ts, j.job, "
        "row_number() OVER (PARTITION BY c.host, c.ts ORDER BY j.ts DESC, j.job) AS r FROM "
        "cpu c JOIN jobs j ON j.host = c.host AND j.ts <= c.ts WHERE c.host = event.host) x"
        " WHERE x.r = 1"
    ),
    # lateral
    "lateral": (
        "SELECT c.ts AS ts, x.job AS job FROM cpu c, LATERAL (SELECT j.job, j.ts FROM jobs "
        "j WHERE j.host = c.host AND j.ts <= c.ts ORDER BY j.ts DESC, j.job LIMIT 1) x "
        "WHERE c.host = event.host"
    ),
    "left lateral": (
        "SELECT c.ts AS ts, x.job AS job FROM cpu c LEFT JOIN LATERAL (SELECT j.job, j.ts "
        "FROM jobs j WHERE j.host = c.host AND j.n = c.n ORDER BY j.ts DESC, j.job LIMIT 1)"
        " x ON true WHERE c.host = event.host"
    ),
    "lateral aggregate": (
        "SELECT c.host AS host, c.ts AS ts, x.n AS n FROM cpu c CROSS JOIN LATERAL (SELECT "
        "count(*) AS n FROM jobs j WHERE j.host = c.host AND j.ts > c.ts) x WHERE c.v > 10"
    ),
    "lateral star": (
        "SELECT h.host AS h, x.* FROM hosts h, LATERAL (SELECT max(c.v) AS top, min(c.v) AS"
        " low FROM cpu c WHERE c.host = h.host) x"
    ),
    "lateral view": (
        "SELECT l.host AS host, t.tag AS tag, count(*) AS n FROM logs l LATERAL VIEW "
        "explode(l.tags) t AS tag GROUP BY l.host, t.tag"
    ),
    "lateral view outer": (
        "SELECT e.tag AS tag, count(*) OVER (PARTITION BY e.tag) AS n, l.ts AS ts FROM logs"
        " l LATERAL VIEW OUTER explode(l.tags) e AS tag WHERE l.host = event.host"
    ),
    "lateral view posexplode": (
        "SELECT p.pos AS pos, p.tag AS tag, count(*) AS n FROM logs l LATERAL VIEW "
        "posexplode(l.tags) p AS pos, tag GROUP BY p.pos, p.tag"
    ),
    "explode": (
        "SELECT x.tag AS tag, count(*) AS n FROM (SELECT explode(l.tags) AS tag FROM logs l"
        " WHERE l.host = event.host) x GROUP BY x.tag"
    ),
    # EXISTS, IN, NOT IN
    "exists": (
        "SELECT count(*) AS n FROM cpu c WHERE EXISTS (SELECT 1 FROM jobs j WHERE j.host = "
        "c.host AND j.ts > c.ts AND j.job = 'dump')"
    ),
    "exists or": (
        "SELECT c.host AS host, count(*) AS n FROM cpu c WHERE c.v > 15 OR EXISTS (SELECT 1"
        " FROM jobs j WHERE j.host = c.host AND j.n = c.n) GROUP BY c.host"
    ),
    "exists or aggregated": (
        "SELECT count(*) AS n, avg(c.v) AS mean, event.level AS l FROM cpu c WHERE c.v > 15"
        " OR EXISTS (SELECT 1 FROM jobs j WHERE j.host = c.host AND j.n > event.level AND "
        "j.n = c.n)"
    ),
    "exists as output": (
        "SELECT c.host AS host, c.ts AS ts, EXISTS (SELECT 1 FROM jobs j WHERE j.host = "
        "c.host AND j.n = c.n) AS busy FROM cpu c WHERE c.v > 5"
    ),
    "exists in case": (
        "SELECT c.ts AS ts, CASE WHEN EXISTS (SELECT 1 FROM jobs j WHERE j.host = c.host "
        "AND j.n > c.n) THEN 'busy' ELSE 'idle' END AS state FROM cpu c WHERE c.host = "
        "event.host"
    ),
    "exists nested": (
        "SELECT c.host AS host, count(*) AS n FROM cpu c WHERE EXISTS (SELECT 1 FROM jobs j"
        " WHERE j.host = c.host AND EXISTS (SELECT 1 FROM logs l WHERE l.host = j.host AND "
        "l.ts > j.ts AND l.line LIKE '%404%')) GROUP BY c.host"
    ),
    "exists of union": (
        "SELECT c.host AS host, count(*) AS n FROM cpu c WHERE EXISTS (SELECT 1 FROM jobs j"
        " WHERE j.host = c.host AND j.n = 7 UNION ALL SELECT 1 FROM logs l WHERE l.host = "
        "c.host AND l.line IS NULL) GROUP BY c.host"
    ),
    "exists with group": (
        "SELECT c.host AS host, count(*) AS n FROM cpu c WHERE EXISTS (SELECT j.job FROM "
        "jobs j WHERE j.host = c.host GROUP BY j.job HAVING count(*) > 5) GROUP BY c.host"
    ),
    "not exists both": (
        "SELECT c.ts AS ts FROM cpu c WHERE NOT EXISTS (SELECT 1 FROM jobs j WHERE j.n = "
        "c.n AND j.host = c.host) AND NOT (c.v > 3 AND EXISTS (SELECT 1 FROM logs l WHERE "
        "l.host = c.host))"
    ),
    "not in": (
        "SELECT c.ts AS ts, c.n AS n FROM cpu c WHERE c.n NOT IN (SELECT j.n FROM jobs j "
        "WHERE j.n IS NOT NULL AND j.host = event.host)"
    ),
    "not in nulls": (
        "SELECT count(*) AS n FROM cpu c WHERE c.n NOT IN (SELECT j.n FROM jobs j WHERE "
        "j.host = event.host)"
    ),
    "not in empty": (
        "SELECT count(*) AS n FROM cpu c WHERE c.n NOT IN (SELECT j.n FROM jobs j WHERE j.n > 100)"
    ),
    "not in correlated": (
        "SELECT c.host AS host, count(*) AS n FROM cpu c WHERE c.n NOT IN (SELECT j.n FROM "
        "jobs j WHERE j.host = c.host AND j.ts > c.ts AND j.n IS NOT NULL) GROUP BY c.host"
    ),
    "not in correlated nulls": (
        "SELECT c.ts AS ts, c.host AS host, c.n AS n FROM cpu c WHERE c.n NOT IN (SELECT "
        "j.n FROM jobs j WHERE j.host = c.host AND j.job = 'scan')"
    ),
    "not in groups": (
        "SELECT c.ts AS ts FROM cpu c WHERE c.host NOT IN (SELECT j.host FROM jobs j WHERE "
        "j.host IS NOT NULL GROUP BY j.host HAVING max(j.n) > event.level + 3)"
    ),
    "not in union": (
        "SELECT c.ts AS ts, c.n AS n FROM cpu c WHERE c.n NOT IN (SELECT j.n AS n FROM jobs"
        " j WHERE j.n > 5 UNION SELECT 1L AS n FROM logs l WHERE l.host = event.host)"
    ),
    "not in or": (
        "SELECT c.ts AS ts FROM cpu c WHERE c.v > 20 OR c.n NOT IN (SELECT j.n FROM jobs j "
        "WHERE j.n > 2)"
    ),
    "in tuple": (
        "SELECT c.ts AS ts FROM cpu c WHERE (c.host, c.n) IN (SELECT j.host, j.n FROM jobs "
        "j WHERE j.job = 'load')"
    ),
    "not in tuple": (
        "SELECT c.ts AS ts FROM cpu c WHERE (c.host, c.n) NOT IN (SELECT j.host, j.n FROM "
        "jobs j WHERE j.job = 'load' AND j.host IS NOT NULL AND j.n IS NOT NULL)"
    ),
    "in limit": (
        "SELECT c.ts AS ts FROM cpu c WHERE c.host IN (SELECT j.host FROM jobs j WHERE "
        "j.host IS NOT NULL GROUP BY j.host ORDER BY count(*) DESC, j.host LIMIT 1)"
    ),
    "in or": (
        "SELECT count(*) AS n FROM cpu c WHERE c.n = 3 OR c.n IN (SELECT j.n + 1 FROM jobs "
        "j WHERE j.host = event.host)"
    ),
    "in case": (
        "SELECT sum(CASE WHEN x.b THEN 1 ELSE 0 END) AS n FROM (SELECT c.n IN (SELECT j.n "
        "FROM jobs j WHERE j.host = event.host AND j.n IS NOT NULL) AS b FROM cpu c) x"
    ),
    # scalar subqueries
    "scalar": (
        "SELECT c.ts AS ts, c.v AS v FROM cpu c WHERE c.v > (SELECT avg(d.v) FROM cpu d "
        "WHERE d.host = event.host)"
    ),
    "scalar output": (
        "SELECT c.host AS host, max(c.v) - (SELECT avg(d.v) FROM cpu d) AS over FROM cpu c "
        "GROUP BY c.host"
    ),
    "scalar correlated": (
        "SELECT c.ts AS ts, c.host AS host FROM cpu c WHERE c.v = (SELECT max(d.v) FROM cpu"
        " d WHERE d.host = c.host)"
    ),
    "scalar correlated by time": (
        "SELECT c.ts AS ts, (SELECT count(*) FROM jobs j WHERE j.host = c.host AND j.ts < "
        "c.ts) AS before FROM cpu c WHERE c.host = event.host"
    ),
    "scalar limit": (
        "SELECT c.ts AS ts, (SELECT j.job FROM jobs j WHERE j.host = c.host AND j.ts <= "
        "c.ts ORDER BY j.ts DESC, j.job LIMIT 1) AS job FROM cpu c WHERE c.host = "
        "event.host"
    ),
    "scalar of all": (
        "SELECT count(*) AS n, (SELECT count(*) FROM jobs j WHERE j.n > event.level) AS m "
        "FROM cpu c WHERE c.v > 0"
    ),
    "scalar in where of all": (
        "SELECT count(*) AS n, sum(c.v) AS s FROM cpu c JOIN jobs j ON j.host = c.host AND "
        "j.n = c.n WHERE c.v > (SELECT avg(d.v) FROM cpu d)"
    ),
    "scalar in having": (
        "SELECT c.host AS host, count(*) AS n FROM cpu c GROUP BY c.host HAVING count(*) > "
        "(SELECT avg(x.n) FROM (SELECT count(*) AS n FROM cpu GROUP BY host) x)"
    ),
    "scalar in scalar": (
        "SELECT c.ts AS ts FROM cpu c WHERE c.v > (SELECT avg(d.v) FROM cpu d WHERE d.n > "
        "(SELECT min(j.n) FROM jobs j WHERE j.host = event.host))"
    ),
    "scalar of relation": (
        "SELECT c.host AS host, count(*) AS n FROM cpu c WHERE c.host = (SELECT max(h.host)"
        " FROM hosts h WHERE h.site = 'x') GROUP BY c.host"
    ),
    "scalar with event": (
        "SELECT c.ts AS ts, (SELECT max(d.v) + max(event.level) FROM cpu d WHERE d.n > "
        "event.level) AS m FROM cpu c WHERE c.host = event.host AND c.n = 3"
    ),
    "scalar empty": (
        "SELECT (SELECT max(d.v) FROM cpu d WHERE d.host = 'nobody') AS m, count(*) AS n FROM cpu c"
    ),
    "scalar as share": (
        "SELECT c.host AS host, count(*) / (SELECT count(*) FROM cpu) AS share FROM cpu c "
        "GROUP BY c.host"
    ),
    "relation first": (
        "SELECT h.host AS host FROM hosts h WHERE (SELECT count(*) FROM cpu c WHERE c.host "
        "= h.host) > 10"
    ),
    "relation exists": (
        "SELECT h.host AS host FROM hosts h WHERE NOT EXISTS (SELECT 1 FROM cpu c WHERE "
        "c.host = h.host)"
    ),
    # OVER
    "frames": (
        "SELECT ts, host, avg(v) OVER (PARTITION BY host ORDER BY ts ROWS BETWEEN 3 "
        "PRECEDING AND 1 FOLLOWING) AS m, sum(v) OVER (PARTITION BY host ORDER BY ts RANGE "
        "BETWEEN INTERVAL 10 MINUTES PRECEDING AND CURRENT ROW) AS r FROM cpu"
    ),
    "ranks": (
        "SELECT ts, host, ntile(4) OVER (ORDER BY ts) AS q, percent_rank() OVER (PARTITION "
        "BY host ORDER BY ts) AS p, cume_dist() OVER (PARTITION BY host ORDER BY ts) AS c, "
        "dense_rank() OVER (ORDER BY host) AS d FROM cpu"
    ),
    "first and last values": (
        "SELECT ts, first_value(v) OVER (PARTITION BY host ORDER BY ts) AS f, last_value(v)"
        " IGNORE NULLS OVER (PARTITION BY host ORDER BY ts) AS l, nth_value(n, 2) OVER "
        "(PARTITION BY host ORDER BY ts) AS s FROM cpu WHERE host = event.host"
    ),
    "lead and lag": (
        "SELECT ts, lead(v, 2, -1D) OVER (PARTITION BY host ORDER BY ts) AS a, lag(ts) OVER"
        " (ORDER BY ts, host) AS b FROM cpu WHERE n > 2"
    ),
    "qualify": (
        "SELECT host, ts, v FROM cpu WHERE v IS NOT NULL QUALIFY row_number() OVER "
        "(PARTITION BY host ORDER BY v DESC, ts) <= 2"
    ),
    "qualify by alias": (
        "SELECT host, ts, rank() OVER (PARTITION BY host ORDER BY ts) AS r FROM cpu QUALIFY"
        " r = 3 ORDER BY host LIMIT 2"
    ),
    "over groups": (
        "SELECT host, count(*) AS n, sum(count(*)) OVER () AS total, rank() OVER (ORDER BY "
        "count(*), host) AS place FROM cpu GROUP BY host"
    ),
    "sessions": (
        "SELECT s.host AS host, s.session AS session, count(*) AS n, min(s.ts) AS since "
        "FROM (SELECT x.host, x.ts, sum(x.new) OVER (PARTITION BY x.host ORDER BY x.ts) AS "
        "session FROM (SELECT host, ts, CASE WHEN unix_timestamp(ts) - "
        "unix_timestamp(lag(ts) OVER (PARTITION BY host ORDER BY ts)) < 300 THEN 0 ELSE 1 "
        "END AS new FROM cpu) x) s GROUP BY s.host, s.session"
    ),
    "median over": (
        "SELECT DISTINCT host, percentile(v, 0.5) OVER (PARTITION BY host) AS m FROM cpu"
    ),
    "collect over": (
        "SELECT ts, collect_list(n) OVER (PARTITION BY host ORDER BY ts ROWS BETWEEN 2 "
        "PRECEDING AND CURRENT ROW) AS l FROM cpu WHERE host = event.host"
    ),
    # set operations
    "union all": (
        "SELECT host, v FROM cpu WHERE v > 10 UNION ALL SELECT host, v FROM cpu WHERE v > 15"
    ),
    "except all": ("SELECT host FROM cpu EXCEPT ALL SELECT host FROM jobs"),
    "intersect all": ("SELECT host, n FROM cpu INTERSECT ALL SELECT host, n FROM jobs"),
    "minus": (
        "SELECT n FROM cpu WHERE host = event.host MINUS SELECT n FROM jobs WHERE host = event.host"
    ),
    "three sets": (
        "(SELECT n FROM cpu UNION SELECT n FROM jobs WHERE n > event.level) EXCEPT SELECT n"
        " FROM cpu WHERE host = event.host"
    ),
    "set ordered by number": (
        "SELECT host, n FROM cpu UNION SELECT host, n FROM jobs ORDER BY 2 DESC NULLS LAST,"
        " 1 LIMIT 5"
    ),
    "set inside with limit": (
        "SELECT count(*) AS c FROM (SELECT n FROM cpu UNION SELECT n FROM jobs ORDER BY n "
        "LIMIT 3) x"
    ),
    "union by parts": (
        "SELECT 'cpu' AS kind, count(*) AS n FROM cpu UNION ALL SELECT 'jobs' AS kind, "
        "count(*) AS n FROM jobs WHERE host = event.host"
    ),
    # groups
    "rollup": (
        "SELECT host, n, count(*) AS c, grouping(host) AS g FROM cpu GROUP BY ROLLUP(host, n)"
    ),
    "with rollup": (
        "SELECT host, n % 2 AS k, count(*) AS c FROM cpu GROUP BY host, n % 2 WITH ROLLUP"
    ),
    "cube": (
        "SELECT host, job, count(*) AS c, grouping_id() AS g FROM jobs GROUP BY CUBE(host, job)"
    ),
    "grouping sets": (
        "SELECT host, job, sum(n) AS s FROM jobs GROUP BY GROUPING SETS ((host), (job), ())"
    ),
    "grouping sets of columns": (
        "SELECT host, job, max(n) AS s FROM jobs WHERE n > event.level GROUP BY host, job "
        "GROUPING SETS ((host, job), (host))"
    ),
    "mixed grouping": (
        "SELECT host, job, n, count(*) AS c FROM jobs GROUP BY host, ROLLUP(job, n)"
    ),
    "group by all": ("SELECT host, job, count(*) AS c FROM jobs GROUP BY ALL"),
    "group by all split": (
        "SELECT upper(job) AS job, avg(n) AS m FROM jobs GROUP BY ALL ORDER BY job"
    ),
    "groups of groups": (
        "SELECT x.c AS c, count(*) AS hosts FROM (SELECT host, count(*) AS c FROM cpu GROUP"
        " BY host) x GROUP BY x.c"
    ),
    "empty rollup": ("SELECT host, count(*) AS c FROM cpu WHERE v > 1000 GROUP BY ROLLUP(host)"),
    "having with alias": ("SELECT host, count(*) AS c FROM cpu GROUP BY host HAVING c > 10"),
    "distinct ordered": ("SELECT DISTINCT host, n FROM cpu ORDER BY n DESC, host LIMIT 4"),
    "distinct of aggregates": (
        "SELECT DISTINCT count(*) AS c FROM cpu GROUP BY host ORDER BY c LIMIT 2"
    ),
    "distinct inside with limit": (
        "SELECT count(*) AS c FROM (SELECT DISTINCT n FROM cpu ORDER BY n LIMIT 4) x"
    ),
    "offset": ("SELECT host, ts, v FROM cpu ORDER BY ts LIMIT 5 OFFSET 3"),
    "offset alone": ("SELECT x.n AS n FROM (SELECT DISTINCT n FROM cpu) x ORDER BY x.n OFFSET 4"),
    "offset inside": (
        "SELECT sum(x.n) AS s FROM (SELECT n, ts FROM cpu ORDER BY ts LIMIT 10 OFFSET 5) x"
    ),
    # aggregates
    "corr": (
        "SELECT host, corr(v, n) AS c, covar_pop(v, n) AS p, covar_samp(v, n) AS s FROM cpu"
        " GROUP BY host"
    ),
    "regression": (
        "SELECT regr_slope(v, n) AS slope, regr_intercept(v, n) AS i, regr_r2(v, n) AS r, "
        "regr_count(v, n) AS c FROM cpu WHERE host = event.host"
    ),
    "moments": ("SELECT skewness(v) AS s, kurtosis(v) AS k, stddev(v) AS d FROM cpu"),
    "percentiles within group": (
        "SELECT host, percentile_cont(0.25) WITHIN GROUP (ORDER BY v) AS p, "
        "percentile_cont(0.9) WITHIN GROUP (ORDER BY v DESC) AS q FROM cpu GROUP BY host"
    ),
    "lists": (
        "SELECT host, sort_array(collect_list(DISTINCT n)) AS l, count(DISTINCT n) FILTER "
        "(WHERE v > 3) AS c, stddev(DISTINCT n) AS d FROM cpu GROUP BY host"
    ),
    "max by with subquery": (
        "SELECT max_by(x.job, x.n) AS job FROM (SELECT job, count(*) AS n FROM jobs GROUP "
        "BY job HAVING job <> 'scan') x"
    ),
    "percentile of groups": (
        "SELECT percentile(x.c, array(0.5, 0.9)) AS p FROM (SELECT host, n, count(*) AS c "
        "FROM cpu GROUP BY host, n) x"
    ),
    # CTEs
    "cte twice": (
        "WITH t AS (SELECT host, avg(v) AS m FROM cpu GROUP BY host) SELECT a.host AS host,"
        " b.host AS other FROM t a JOIN t b ON a.m > b.m"
    ),
    "cte of cte": (
        "WITH t AS (SELECT host, v FROM cpu WHERE v > event.level), u AS (SELECT host, "
        "max(v) AS v FROM t GROUP BY host) SELECT t.host AS host, count(*) AS n FROM t JOIN"
        " u ON u.host = t.host AND t.v > u.v / 2 GROUP BY t.host"
    ),
    "cte in exists": (
        "WITH busy AS (SELECT host FROM jobs GROUP BY host HAVING count(*) > 12) SELECT "
        "count(*) AS n FROM cpu c WHERE c.v > 50 OR EXISTS (SELECT 1 FROM busy b WHERE "
        "b.host = c.host)"
    ),
    "cte inside": (
        "SELECT x.host AS host FROM (WITH t AS (SELECT host, count(*) AS n FROM cpu GROUP "
        "BY host) SELECT host FROM t WHERE n > 10) x"
    ),
    "cte union": (
        "WITH t AS (SELECT n FROM cpu UNION SELECT n FROM jobs) SELECT count(*) AS c, "
        "max(n) AS m FROM t"
    ),
    "cte in scalar": (
        "WITH t AS (SELECT avg(v) AS m FROM cpu) SELECT c.host AS host, count(*) AS n FROM "
        "cpu c WHERE c.v > (SELECT m FROM t LIMIT 1) GROUP BY c.host"
    ),
    "cte distinct": (
        "WITH t AS (SELECT DISTINCT host FROM jobs) SELECT c.host AS host, count(*) AS n "
        "FROM cpu c JOIN t ON t.host = c.host GROUP BY c.host"
    ),
    # functions
    "intervals": (
        "SELECT date_trunc('HOUR', ts) AS h, count(*) AS n, max(ts - INTERVAL '1 2:03:04' "
        "DAY TO SECOND) AS t, max(ts + make_interval(0, 0, 0, 1)) AS u FROM cpu WHERE ts >="
        " event.ts - INTERVAL 45 MINUTES GROUP BY date_trunc('HOUR', ts), v > 3"
    ),
    "strings": (
        "SELECT regexp_extract(line, '(GET|POST) (/[a-z])', 2) AS path, split(line, ' ')[0]"
        " AS verb, count(*) OVER (PARTITION BY split(line, ' ')[2]) AS n FROM logs WHERE "
        "line RLIKE '^GET' AND host = event.host"
    ),
    "maps": (
        "SELECT x.host AS host, x.m['load'] AS l, map_keys(x.m) AS k FROM (SELECT host, "
        "map_from_entries(array_sort(collect_list(struct(job, c)))) AS m FROM (SELECT host,"
        " job, count(*) AS c FROM jobs GROUP BY host, job) g GROUP BY host) x"
    ),
    "arrays": (
        "SELECT host, exists(tags, t -> t = 'y') AS y, size(filter(tags, t -> t > 'x')) AS "
        "s, array_contains(tags, 'x') AS c, row_number() OVER (ORDER BY ts) AS r FROM logs"
    ),
    "structs": (
        "SELECT x.s.host AS host, x.s.n AS n FROM (SELECT DISTINCT struct(host, n) AS s FROM cpu) x"
    ),
    "dates": (
        "SELECT to_date(ts) AS d, hour(ts) * 60 + minute(ts) DIV 10 AS t, dayofweek(ts) AS "
        "w, datediff(event.ts, ts) AS days, count(*) OVER () AS n FROM cpu WHERE n = 1"
    ),
    "case": (
        "SELECT CASE x.k WHEN 0 THEN 'even' WHEN 1 THEN 'odd' ELSE '?' END AS k, x.c AS c "
        "FROM (SELECT n % 2 AS k, count(*) AS c FROM cpu GROUP BY n % 2) x"
    ),
    "windows of time": (
        "SELECT a.e AS e, a.n AS n, b.n AS m FROM (SELECT window(ts, '10 minutes').end AS "
        "e, count(*) AS n FROM cpu GROUP BY window(ts, '10 minutes')) a LEFT JOIN (SELECT "
        "window(ts, '10 minutes').end AS e, count(*) AS n FROM jobs GROUP BY window(ts, '10"
        " minutes')) b ON a.e = b.e"
    ),
    "pivot by hand": (
        "SELECT host, sum(n) FILTER (WHERE job = 'load') AS l, sum(n) FILTER (WHERE job = "
        "'dump') AS d FROM (SELECT DISTINCT host, job, n FROM jobs) x GROUP BY host"
    ),
    "events without rows": (
        "SELECT count(*) AS n, max(x.v) AS v FROM (SELECT v FROM cpu WHERE host = 'nobody' "
        "LIMIT 3) x"
    ),
    "star of a join": (
        "SELECT * FROM (SELECT host AS h, max(v) AS top FROM cpu GROUP BY host) a JOIN "
        "(SELECT host AS g, max(n) AS most FROM jobs GROUP BY host) b ON a.h = b.g"
    ),
    "star without a column": (
        "SELECT * EXCEPT (v) FROM cpu WHERE host = event.host ORDER BY ts, n LIMIT 7 OFFSET 1"
    ),
    "qualified star": (
        "SELECT c.*, count(*) OVER (PARTITION BY c.host) AS k FROM cpu c LEFT SEMI JOIN "
        "jobs j ON j.host = c.host WHERE c.n = 2"
    ),
    "order by expression": (
        "SELECT host, ts, v FROM cpu WHERE v IS NOT NULL AND host IS NOT NULL ORDER BY "
        "abs(v - 5), ts LIMIT 6 OFFSET 1"
    ),
    "limit in a side": (
        "(SELECT host, ts FROM cpu ORDER BY ts LIMIT 2) UNION ALL (SELECT host, ts FROM "
        "jobs ORDER BY ts DESC LIMIT 2)"
    ),
    "parentheses": (
        "SELECT x.host AS host, count(*) AS n FROM ((SELECT host FROM cpu) UNION ALL "
        "(SELECT host FROM jobs)) x GROUP BY x.host"
    ),
    "coalesce of scalar": (
        "SELECT h.host AS host, coalesce((SELECT max(c.v) FROM cpu c WHERE c.host = "
        "h.host), -1D) AS top FROM hosts h"
    ),
    "between scalars": (
        "SELECT c.ts AS ts FROM cpu c WHERE c.v BETWEEN (SELECT percentile(d.v, 0.4) FROM "
        "cpu d) AND (SELECT percentile(d.v, 0.6) FROM cpu d)"
    ),
    "in subquery of subquery": (
        "SELECT count(*) AS n FROM cpu WHERE host IN (SELECT host FROM jobs WHERE n IN "
        "(SELECT max(n) FROM jobs WHERE host = event.host))"
    ),
    "unqualified exists": (
        "SELECT host, count(*) AS n FROM cpu WHERE EXISTS (SELECT 1 FROM logs l WHERE "
        "l.host = cpu.host AND l.line IS NULL) GROUP BY host"
    ),
    "filter with exists": (
        "SELECT x.host AS host, count(*) FILTER (WHERE x.e) AS n FROM (SELECT c.host, "
        "EXISTS (SELECT 1 FROM jobs j WHERE j.n = c.n) AS e FROM cpu c) x GROUP BY x.host"
    ),
    "gaps": (
        "SELECT a.host AS host, a.ts AS since, min(b.ts) AS until FROM cpu a LEFT JOIN cpu "
        "b ON a.host = b.host AND b.ts > a.ts WHERE a.host = event.host GROUP BY a.host, "
        "a.ts HAVING min(b.ts) IS NULL OR min(b.ts) > a.ts + INTERVAL 5 MINUTES"
    ),
    # named windows, VALUES
    "window clause": (
        "SELECT host, ts, rank() OVER w AS r, sum(v) OVER (PARTITION BY host ORDER BY ts, v, n) "
        "AS s, max(n) OVER (p) AS m FROM cpu WHERE host IS NOT NULL WINDOW p AS (PARTITION BY "
        "host), w AS (PARTITION BY host ORDER BY ts, v, n)"
    ),
    "window clause in a subquery": (
        "SELECT x.job AS job, max(x.r) AS r FROM (SELECT job, row_number() OVER w AS r FROM "
        "jobs WINDOW w AS (PARTITION BY job ORDER BY ts, n)) x GROUP BY x.job"
    ),
    "values": (
        "SELECT l.name AS name, count(*) AS n FROM cpu c JOIN (VALUES (3, 'low'), (6, 'high')) "
        "AS l(least, name) ON c.n >= l.least WHERE c.host = event.host GROUP BY l.name"
    ),
    "values of the event": (
        "SELECT x.least AS level, count(j.n) AS n FROM (VALUES (event.level), (2L)) AS x(least) "
        "LEFT JOIN jobs j ON j.n = x.least GROUP BY x.least"
    ),
}
