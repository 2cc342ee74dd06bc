"""The report of an import."""

from moirae.sigma.report import ImportReport, LeftOut, MergeConflict, RuleLocation


def test_reasons_are_counted_by_kind() -> None:
    location = RuleLocation("f.yml", 3, None, "title", "id")
    left_out = [
        LeftOut(location, "field", "a"),
        LeftOut(location, "status", "b"),
        LeftOut(location, "field", "c"),
    ]
    report = ImportReport(added=["x"], unchanged=["y"], left_out=left_out)
    assert report.count_left_out() == {"field": 2, "status": 1}
    assert report.imported == 2
    assert not report.is_complete
    assert str(left_out[0]) == "f.yml:3: left out: a"


def test_conflict_is_incomplete() -> None:
    assert ImportReport(unchanged=["y"]).is_complete
    assert not ImportReport(conflicts=[MergeConflict("rule", "file", "expr")]).is_complete
