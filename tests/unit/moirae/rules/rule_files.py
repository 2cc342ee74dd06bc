"""Rule files of the tests of this folder."""

from moirae.rules.parse import parse_rules
from moirae.rules.rule_set import Rule, RuleSet

# All keys, with the layout and comments of the documentation.
EVERY_KEY = """\
groups:
- name: testbed
  derived:
  - stream: load
    expr: SELECT host, window.end AS ts, avg(cpu) AS cpu FROM cpu GROUP BY host, window(ts, '5 minutes')
    archive: true
  rules:
  - alert: NodeOverloaded
    expr: SELECT host, ts, cpu FROM load WHERE cpu > 90        # every output row has ts; the other columns are the event's attributes
    key: [host]                                               # fingerprint, with the alert's name
    for: 0s
    keep_firing_for: 10m
    labels: {severity: page}
    annotations: {summary: "{{ event.host }} at {{ event.cpu | round(1) }} %"}
    context:
      running: {sql: "SELECT slice FROM cpu WHERE host = event.host", within: 10m}     # rows valid in [event.ts − within, event.ts + delay]
      site: {sql: "SELECT site FROM hosts WHERE host = event.host"}
      own: {sql: "SELECT event.cpu AS cpu", numeric: [cpu]}
    surroundings:
      before: {sql: "SELECT ts, cpu FROM load WHERE host = event.host", within: 1h}
    recall:
      norm: {sql: "SELECT avg(h.cpu) AS mean, stddev(h.cpu) AS sd, count(*) AS n FROM cpu h WHERE h.host = event.host", range: 7d, every: 1s}
      similar: {similar: {contexts: [running, site], k: 10, measure: tfidf, gap: 6h}, every: 1s, feedback: 10m}
    where: event.cpu > norm.mean + 3 * norm.sd                 # optional: holds the alert to its history, re-judged at each revision
    then:                                                      # optional: goes on with live data
    - stream: candidates
      sql: "SELECT n.host, n.mean, p.rtt FROM norm n JOIN ping p ON p.host = n.host"     # norm carries the key, host
      within: 1m
      analysis: present                                       # or event
"""

RULE = """\
groups:
- name: g
  rules:
  - alert: A
    expr: SELECT host, ts FROM cpu
    key: [host]
"""

USED_NAMES = frozenset({"cpu", "ping", "hosts"})


def read_rules(text: str) -> RuleSet:
    rules, problems = parse_rules("r.yaml", text, USED_NAMES)
    assert problems == ()
    return rules


def read_rule(text: str) -> Rule:
    return read_rules(text).rules[0]


def parse_problems(text: str) -> list[str]:
    """Each problem as text, starting with its position."""
    return [str(problem) for problem in parse_rules("r.yaml", text, USED_NAMES)[1]]


def with_keys(*lines: str) -> str:
    """RULE with further keys from line 7 on."""
    return RULE + "".join(f"    {line}\n" for line in lines)
