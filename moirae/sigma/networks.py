"""Regular expressions of the addresses of a network, in all their spellings. No I/O."""

from collections.abc import Iterator, Sequence
from ipaddress import IPv4Network, IPv6Network
from typing import NamedTuple

_OCTET = "(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
_GROUP = "[0-9a-fA-F]{1,4}"
_OCTETS = 4
_GROUPS = 8
_HEX_DIGITS = "0123456789abcdef"


def network_pattern(network: IPv4Network | IPv6Network) -> str:
    """A pattern that matches the addresses of a network, and no others.

    IPv6 addresses may be written in full or with the longest zeros as `::` (RFC 5952), with leading
    zeros, and in capitals.
    """
    if isinstance(network, IPv4Network):
        return _ipv4_pattern(network)
    return _ipv6_pattern(network)


def _ipv4_pattern(network: IPv4Network) -> str:
    fixed, bits = divmod(network.prefixlen, 8)
    octets = list(network.network_address.packed)
    parts = list(map(str, octets[:fixed]))
    if bits:
        size = 1 << (8 - bits)
        parts.append(f"({_number_range(octets[fixed], octets[fixed] + size - 1)})")
    parts += [_OCTET] * (_OCTETS - len(parts))
    return "^" + r"\.".join(parts) + r"\z"


def _number_range(first: int, last: int) -> str:
    """A pattern of the numbers of a range in decimal: those with the same tens together."""
    digits_by_tens: dict[int, list[int]] = {}
    for number in range(first, last + 1):
        tens, digit = divmod(number, 10)
        digits_by_tens.setdefault(tens, []).append(digit)
    alternatives = []
    for tens, digits in digits_by_tens.items():
        last_digit = f"[{digits[0]}-{digits[-1]}]" if len(digits) > 1 else str(digits[0])
        alternatives.append(f"{tens or ''}{last_digit}")
    return "|".join(alternatives)


def _ipv6_pattern(network: IPv6Network) -> str:
    packed = network.network_address.packed
    groups = [packed[index] << 8 | packed[index + 1] for index in range(0, 16, 2)]
    count, bits = divmod(network.prefixlen, 16)
    given = [_GivenGroup(_fixed_group(group), group == 0, group == 0) for group in groups[:count]]
    if bits:
        given.append(_GivenGroup(_partial_group(groups[count], bits), groups[count] == 0, False))
    spellings = [_in_full(given), *_with_zeros_left_out(given)]
    return f"^({'|'.join(spellings)})\\z" if len(spellings) > 1 else f"^{spellings[0]}\\z"


class _GivenGroup(NamedTuple):
    """A group of which the network gives bits: its pattern, and whether it can or must be 0."""

    pattern: str
    can_be_zero: bool
    is_zero: bool


def _in_full(given: Sequence[_GivenGroup]) -> str:
    """Addresses that spell all given groups: what follows is free."""
    if not given:
        return "[0-9a-fA-F:]*:[0-9a-fA-F:]*"
    start = ":".join(group.pattern for group in given)
    return start if len(given) == _GROUPS else f"{start}:[0-9a-fA-F:]*"


def _with_zeros_left_out(given: Sequence[_GivenGroup]) -> Iterator[str]:
    """Addresses in which `::` stands for given groups: for all zeros from `start` on."""
    count = len(given)
    free = f"(:{_GROUP}){{{_GROUPS - count}}}" if count < _GROUPS else ""
    for start in range(count):
        if start > 0 and given[start - 1].is_zero:
            continue
        before = ":".join(group.pattern for group in given[:start]) + "::"
        for end in range(start, count):
            is_run = all(group.can_be_zero for group in given[start:end])
            if end >= start + 2 and is_run and not given[end].is_zero:
                yield before + ":".join(group.pattern for group in given[end:]) + free
        if all(group.can_be_zero for group in given[start:]):
            room = _GROUPS - max(start + 2, count)
            yield before + (f"({_GROUP}(:{_GROUP}){{0,{room - 1}}})?" if room > 0 else "")


def _fixed_group(group: int) -> str:
    if group == 0:
        return "0{1,4}"
    text = format(group, "x")
    zeros = 4 - len(text)
    return (f"0{{0,{zeros}}}" if zeros else "") + "".join(map(_any_case, text))


def _partial_group(group: int, bits: int) -> str:
    """The group whose first bits are given, with or without leading zeros."""
    last_group = group | ((1 << (16 - bits)) - 1)
    digits: list[str] = []  # those allowed at each position: one, some or all
    for low, high in zip(format(group, "04x"), format(last_group, "04x"), strict=True):
        digits.append(_HEX_DIGITS[int(low, 16) : int(high, 16) + 1])
    alternatives = ["".join(map(_digit_class, digits))]
    while len(digits) > 1 and "0" in digits[0]:
        digits = digits[1:]
        alternatives.append("".join(map(_digit_class, digits)))
    return alternatives[0] if len(alternatives) == 1 else f"({'|'.join(alternatives)})"


def _digit_class(digits: str) -> str:
    if len(digits) == 1:
        return _any_case(digits)
    if digits == _HEX_DIGITS:
        return "[0-9a-fA-F]"
    return "[" + "".join(sorted(set(digits + digits.upper()))) + "]"


def _any_case(digit: str) -> str:
    return digit if digit.isdigit() else f"[{digit}{digit.upper()}]"
