"""A workspace whose rules, contexts, recalls and stages form a network, with counted flows."""

from psycopg import Connection

from sql.reports import FlowGateway, FlowRow

WORKSPACE = """
home: .moirae
server: {listen: "127.0.0.1:0"}
streams:
  cpu:
    columns: {ts: timestamp, host: string, cpu: double}
    time: ts
    id: [host]
    source: {http: true}
  net:
    columns: {ts: timestamp, host: string, cpu: double}
    time: ts
    source: {http: true}
relations:
  hosts:
    columns: {host: string, rack: string}
    key: [host]
    source: {file: hosts.csv}
rules: [rules.yaml]
watch_rules: false
"""
_GROUP = """
- name: g{group}
  derived:
  - {{stream: load_{group}, expr: "SELECT host, ts, cpu FROM cpu WHERE cpu > 1"}}
  rules:
"""
_RULE = """
  - alert: Rule{number}
    expr: SELECT host, ts, cpu FROM {table} WHERE cpu > {number}
    key: [host]
    context:
      others: {{sql: "SELECT o.host FROM net o WHERE o.host <> event.host", within: 5m}}
    recall:
      before: {{sql: "SELECT count(*) AS n FROM cpu WHERE host = event.host", range: 1d, stream: "before_{number}"}}
      similar: {{similar: {{contexts: [others]}}}}
"""


def write_rules(count: int, group_size: int = 20) -> str:
    """A rule file of so many rules, in groups; every second one reads a derived stream."""
    text = "groups:"
    for number in range(count):
        if number % group_size == 0:
            text += _GROUP.format(group=number // group_size)
        text += _RULE.format(
            number=number, table=("cpu", f"load_{number // group_size}")[number % 2]
        )
    return text


def count_flows(connection: Connection, count: int, group_size: int = 20) -> None:
    """Store what such a workspace has processed in the last minutes."""
    flows = [FlowRow("stream", "cpu", rows=300_000, bytes=64 << 20), FlowRow("stream", "net", 900)]
    for number in range(count):
        rule = f"g{number // group_size}/Rule{number}"
        flows += [
            FlowRow("rule", rule, rows=30, seconds=0.3, bytes=1 << 16),
            FlowRow("context", f"{rule}/others", rows=60, seconds=0.1),
            FlowRow("recall", f"{rule}/before", rows=3_000, results=300, seconds=3.0),
            FlowRow("revisions", f"{rule}/before", rows=90),
        ]
    FlowGateway(connection).add(flows)
    connection.execute("INSERT INTO streams (name, newest) VALUES ('cpu', '2026-01-01T00:01:00Z')")
    connection.execute(
        "INSERT INTO deployments (rule, version, settled_to, state)"
        " SELECT rule, version, '2026-01-01T00:00:48Z', 'running' FROM rules"
    )
