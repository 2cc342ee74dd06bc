"""Keys by which receivers recognise a message that is delivered again."""

from moirae.notify.channels.webhook import make_dedup_key


def test_key_is_that_of_the_message_and_its_workspace() -> None:
    assert make_dedup_key("w", 7) == make_dedup_key("w", 7)
    assert make_dedup_key("w", 7) != make_dedup_key("v", 7)
    assert make_dedup_key("w", None) == ""
