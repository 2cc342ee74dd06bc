from moirae.alerts.alert_stream import make_alert_table
from moirae.rules.alert_table import ALERT_COLUMNS, ALERTS, add_alerts
from recall.query import Tables


def test_a_workspace_may_have_a_table_of_this_name() -> None:
    assert add_alerts(Tables({"cpu": "at"})).streams == {"cpu": "at", ALERTS: "ts"}
    assert add_alerts(Tables({"cpu": "at"})).earlier == {ALERTS}
    own = Tables({ALERTS: "at"})
    assert add_alerts(own) is own


def test_columns_are_those_of_the_rows() -> None:
    assert make_alert_table([]).column_names == list(ALERT_COLUMNS)
