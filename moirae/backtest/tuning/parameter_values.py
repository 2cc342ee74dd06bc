"""The values of parameters that are tried: `threshold=80..99`, `host=a,b`. No I/O."""

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from itertools import product

ParameterValue = int | float | str | bool

MAX_COMBINATIONS = 500
_FLAGS = {"true": True, "false": False}


def combine_values(
    options: Sequence[str], parameters: Mapping[str, ParameterValue]
) -> list[dict[str, ParameterValue]]:
    """All combinations of the values that options name, in their order.

    `parameters`: those of the rule, whose types are those of the values. Raises `ValueError` with the
    reason.
    """
    values_by_name: dict[str, list[ParameterValue]] = {}
    for option in options:
        name, separator, text = option.partition("=")
        if not separator or not text:
            raise ValueError(f"{option!r} is not NAME=VALUES, such as threshold=80..99")
        if name not in parameters:
            names = ", ".join(parameters) or "none; add `parameters` to the rule"
            raise ValueError(f"the rule has no parameter {name!r}; its parameters are {names}")
        values = values_by_name.setdefault(name, [])
        values += (value for value in _parse(name, text, parameters[name]) if value not in values)
    count = 1
    for values in values_by_name.values():
        count *= len(values)
    if count > MAX_COMBINATIONS:
        raise ValueError(f"{count:,} combinations of values; at most {MAX_COMBINATIONS} are tried")
    return [
        dict(zip(values_by_name, combination, strict=True))
        for combination in product(*values_by_name.values())
    ]


def _parse(name: str, text: str, declared: ParameterValue) -> Iterator[ParameterValue]:
    for part in text.split(","):
        if isinstance(declared, bool):
            if part not in _FLAGS:
                raise ValueError(f"{name}: {part!r} is not true or false")
            yield _FLAGS[part]
        elif isinstance(declared, str):
            yield part
        else:
            yield from _parse_numbers(name, part)


def _parse_numbers(name: str, text: str) -> Iterator[ParameterValue]:
    """A number, or those of a range, inclusive: `LOW..HIGH` or `LOW..HIGH..STEP`."""
    try:
        numbers = [Decimal(part) for part in text.split("..")]
    except InvalidOperation:
        numbers = []
    if not 1 <= len(numbers) <= 3 or not all(number.is_finite() for number in numbers):
        raise ValueError(f"{name}: {text!r} is neither a number nor LOW..HIGH or LOW..HIGH..STEP")
    if len(numbers) == 1:
        yield _to_number(numbers[0])
        return
    low, high, step = [*numbers, Decimal(1)][:3]
    if step <= 0 or high < low:
        raise ValueError(f"{name}: {text!r} has no values")
    count = (high - low) // step + 1
    if count > MAX_COMBINATIONS:
        raise ValueError(f"{name}: {text!r} has {count:,} values; at most {MAX_COMBINATIONS}")
    for number in range(int(count)):
        yield _to_number(low + number * step)


def _to_number(number: Decimal) -> int | float:
    is_integer = number == number.to_integral_value()
    return int(number) if is_integer else float(number)
