"""Reasons for failures of object storage: short, and without credentials."""

import pytest

from archiver.storage.s3_errors import ACCESS_DENIED, NO_SUCH_BUCKET, summarize_error

_RESPONSE = "<Error><Code>{code}</Code><Token-0>s3cret</Token-0></Error>"


def test_response_is_reduced_to_status_and_error_code() -> None:
    message = (
        "Generic S3 error:\n  Server returned non-2xx status code: 400 Bad Request: "
        + _RESPONSE.format(code="InvalidRequest")
        + "\n\nDebug source:\nanything"
    )
    assert summarize_error(message) == (
        "Generic S3 error: Server returned non-2xx status code 400 (InvalidRequest)"
    )


def test_user_password_and_query_are_removed_from_urls() -> None:
    message = "error at http://user:s3cret@host:1/path?X-Token=s3cret, after 2 retries"
    assert summarize_error(message) == "error at http://host:1/path, after 2 retries"


@pytest.mark.parametrize("code", ["ExpiredToken", "InvalidAccessKeyId", "SignatureDoesNotMatch"])
def test_rejected_credentials_are_reported_as_access_denied(code: str) -> None:
    assert summarize_error(_RESPONSE.format(code=code)) == ACCESS_DENIED


def test_missing_bucket_is_named_as_such() -> None:
    assert summarize_error(_RESPONSE.format(code="NoSuchBucket")) == NO_SUCH_BUCKET


def test_failed_request_for_role_credentials_is_reported_as_missing_credentials() -> None:
    message = "error sending request for url (http://169.254.169.254/latest/api/token)"
    assert "set AWS_ACCESS_KEY_ID" in summarize_error(message)


def test_summary_is_limited_in_length() -> None:
    assert len(summarize_error("x" * 10_000)) == 400
