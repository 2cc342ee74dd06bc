"""One-line reasons for failures of object storage, without credentials. No I/O."""

import re

ACCESS_DENIED = (
    "access denied: check the credentials in the environment "
    "(AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN)"
)
NO_SUCH_BUCKET = "no such bucket"
_NO_CREDENTIALS = (
    "no credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, "
    "or give the machine an IAM role"
)
_ACCESS_DENIED_CODES = (
    "403 Forbidden",
    "InvalidAccessKeyId",
    "SignatureDoesNotMatch",
    "ExpiredToken",
    "InvalidToken",
)
# The libraries ask this address for the credentials of an IAM role when the environment has none.
_METADATA_ADDRESS = "169.254.169.254"
_MAX_LENGTH = 400  # characters

_TERMINAL_CODES = re.compile("\x1b\\[[0-9;]*m|↳")
# Of a response only the status and the error code are shown: its text may repeat the request.
_STATUS_PATTERN = re.compile(r"(non-2xx status code)\W+(\d+).*")
_ERROR_CODE_PATTERN = re.compile(r"<Code>(\w+)</Code>")
# Of a URL neither user and password nor the query are shown.
_URL_PATTERN = re.compile(r"(\w://)(?:[^\s/?#]*@)?([^\s?#]*)[^\s,)]*")


def is_missing_bucket(message: str) -> bool:
    """Whether a library's error message says that the bucket does not exist."""
    return "NoSuchBucket" in message


def summarize_error(message: str) -> str:
    """Reduce a library's error message, of many lines, to one line without secrets."""
    if is_missing_bucket(message):
        return NO_SUCH_BUCKET
    if _METADATA_ADDRESS in message:
        return _NO_CREDENTIALS
    if any(code in message for code in _ACCESS_DENIED_CODES):
        return ACCESS_DENIED
    summary, _, _ = _TERMINAL_CODES.sub("", message).partition("Debug source:")
    summary, _, response = " ".join(summary.split()).partition("<")
    summary = _STATUS_PATTERN.sub(r"\1 \2", summary)
    summary = _URL_PATTERN.sub(r"\1\2", summary).strip()
    error_code = _ERROR_CODE_PATTERN.search(f"<{response}")
    if error_code:
        summary = f"{summary} ({error_code[1]})"
    return summary[:_MAX_LENGTH]
