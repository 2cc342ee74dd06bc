"""Labels and annotations of imported rules."""

from sigma.rule import SigmaRule

from moirae.rules import render
from moirae.sigma.metadata import make_annotations, make_labels, make_name
from moirae.sigma.model import SigmaMap
from tests.unit.moirae.sigma.examples import CURL, CURL_ID

RULE = SigmaRule.from_yaml(CURL)


def test_name_has_words_of_the_title_and_digits_of_the_id() -> None:
    assert make_name("Download by curl", CURL_ID) == "download_by_curl-0d4f3f0e"
    assert make_name("7Zip", CURL_ID) == "sigma_7zip-0d4f3f0e"
    assert len(make_name("long " * 40, CURL_ID)) <= 63


def test_labels_have_level_tags_and_log_source() -> None:
    labels = make_labels(
        RULE, CURL_ID, ["attack.t1105", "sysmon"], SigmaMap(severity={"high": "page"})
    )
    assert labels == {
        "severity": "page",
        "level": "high",
        "status": "test",
        "tags": "attack.t1105,sysmon",
        "category": "process_creation",
        "product": "windows",
        "sigma_id": CURL_ID,
    }


def test_annotations_are_templates_of_their_text() -> None:
    annotations = make_annotations(RULE, SigmaMap(license="Detection Rule License 1.1"))
    assert annotations["references"] == "https://example.org/curl\nhttps://example.org/more"
    assert annotations["license"] == "Detection Rule License 1.1"
    assert annotations["author"] == "Ada"
    rendered = render(annotations["description"], {})
    assert rendered == "A file is fetched.\n{{ not a template }}"
