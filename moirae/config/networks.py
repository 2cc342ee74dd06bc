"""IP networks in the workspace file."""

from ipaddress import ip_network
from typing import Annotated

from pydantic import AfterValidator

from moirae.documents.types import Text


def _validate(networks: tuple[str, ...]) -> tuple[str, ...]:
    for network in networks:
        try:
            ip_network(network, strict=False)
        except ValueError:
            raise ValueError(
                f"{network[:80]!r} is not an IP address or network, such as 10.0.0.0/8"
            ) from None
    return networks


Networks = Annotated[tuple[Text, ...], AfterValidator(_validate)]
