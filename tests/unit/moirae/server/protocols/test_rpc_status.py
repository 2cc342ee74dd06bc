"""Errors of OTLP."""

import pytest

from moirae.server.protocols.rpc_status import JSON, PROTOBUF, write_status


@pytest.mark.parametrize(
    ("status", "code"), [(400, 3), (401, 16), (403, 7), (413, 8), (415, 3), (503, 14), (500, 13)]
)
def test_status_has_the_code_of_grpc(status: int, code: int) -> None:
    assert write_status(status, "no", JSON) == b'{"code":%d,"message":"no"}' % code
    # The fields 1 and 2 of google.rpc.Status.
    assert write_status(status, "no", PROTOBUF) == b"\x08" + bytes([code]) + b"\x12\x02no"
