"""Causes of failures: their traces and signatures."""

from moirae.demo.causes import CAUSES, FAILURE_KINDS, ProcessTrace


def test_trace_merges_selected_terms_into_an_ordinary_process() -> None:
    trace = ProcessTrace("crawler", "web-index", "juniper")
    ordinary = ProcessTrace("bash", "dns-watch", "oak")
    merged = trace.merge(ordinary, {"process=crawler", "user=elm"})
    assert merged == ProcessTrace("crawler", "dns-watch", "oak")


def test_trace_without_fixed_process_has_the_ordinary_one() -> None:
    trace = ProcessTrace(experiment="web-index", user="juniper")
    assert trace.terms() == ["experiment=web-index", "user=juniper"]
    merged = trace.merge(ProcessTrace("bash", "dns-watch", "oak"), trace.terms())
    assert merged == ProcessTrace("bash", "web-index", "juniper")


def test_each_cause_has_a_short_distinct_signature() -> None:
    signatures = {cause.signature for cause in CAUSES}
    assert len(signatures) == len(CAUSES)
    assert all(2 <= len(signature) <= 4 for signature in signatures)
    assert {cause.kind for cause in CAUSES} == set(FAILURE_KINDS)
