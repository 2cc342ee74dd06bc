"""Which part of a regular expression may make its time grow faster than the length of a value.

Java's matcher backtracks. Its time grows with a power of the length, or exponentially, where a text
can be divided among repetitions in many ways and what follows them does not match. Patterns without
look-around, back-references and the like are mostly evaluated by RE2, whose time is linear: of these,
only repetitions side by side or inside each other count. No I/O.
"""

from collections.abc import Iterator, Sequence

from moirae.rules.checks.pattern_parts import ANY, PatternPart, parse_parts

_MAX_PART = 60  # characters of a part in a message
_EXPONENTIAL = "repeats what can be divided in many ways, in exponential time"


def find_slow_part(pattern: str) -> str | None:
    """A message about the part; None: the time grows with the length, as far as is known.

    As in a search with RLIKE, whose leading and trailing `.*` are left out.
    """
    try:
        root = parse_parts(pattern)
    except (ValueError, IndexError):
        return None
    parts = list(_flatten(PatternPart("sequence", 0, 0, _trim(root.parts or (root,)))))
    if root.kind == "choice":
        parts = [root]
    is_linear = _is_linear(root)
    slow = list(_find_in_sequence(parts, False, is_linear))
    if slow:
        part, reason = min(slow, key=lambda named: named[1] != _EXPONENTIAL)
    elif not is_linear and parts and _repeats(parts[0]) and _is_required(parts[1:]):
        part, reason = parts[0], "is tried again from each character of the value"
    else:
        return None
    text = pattern[part.start : part.end]
    if len(text) > _MAX_PART:
        text = f"{text[:_MAX_PART]}…"
    return f"{text} {reason}"


def _trim(parts: tuple[PatternPart, ...]) -> tuple[PatternPart, ...]:
    while parts and _is_any(parts[0]):
        parts = parts[1:]
    while parts and _is_any(parts[-1]):
        parts = parts[:-1]
    return parts


def _is_linear(part: PatternPart) -> bool:
    return part.is_linear and all(map(_is_linear, part.parts))


def _flatten(part: PatternPart) -> Iterator[PatternPart]:
    """The parts of a sequence, and of the sequences in it."""
    if part.kind == "sequence":
        for inner in part.parts:
            yield from _flatten(inner)
    else:
        yield part


def _is_any(part: PatternPart) -> bool:
    if part.kind != "repetition" or part.least or part.most is not None or len(part.parts) != 1:
        return False
    return part.parts[0].kind == "characters" and part.parts[0].characters == ANY


def _repeats(part: PatternPart) -> bool:
    """Whether a part is a repetition without limit that gives back what it has matched."""
    return part.kind == "repetition" and part.most is None and part.backtracks


def _is_required(parts: Sequence[PatternPart]) -> bool:
    """Whether parts may fail to match."""
    return any(part.kind == "assertion" or not _is_optional(part) for part in parts)


def _is_optional(part: PatternPart) -> bool:
    """Whether a part matches the empty text."""
    if part.kind == "repetition":
        return part.least == 0 or all(map(_is_optional, part.parts))
    if part.kind == "choice":
        return any(map(_is_optional, part.parts))
    return part.kind != "characters" and all(map(_is_optional, part.parts))


def _characters_of(part: PatternPart) -> frozenset[int]:
    """The characters that a part may match anywhere in it."""
    if part.kind == "assertion":
        return frozenset()
    return part.characters.union(*map(_characters_of, part.parts))


def _first_characters(parts: Sequence[PatternPart]) -> frozenset[int]:
    """The characters that a sequence of parts may start with."""
    first: frozenset[int] = frozenset()
    for part in parts:
        if part.kind == "choice":
            for branch in part.parts:
                first |= _first_characters(list(_flatten(branch)))
        elif part.parts and part.kind != "assertion":
            first |= _first_characters([inner for p in part.parts for inner in _flatten(p)])
        else:
            first |= part.characters
        if part.kind != "assertion" and not _is_optional(part):
            break
    return first


def _find_in_sequence(
    parts: Sequence[PatternPart], is_followed: bool, is_linear: bool
) -> Iterator[tuple[PatternPart, str]]:
    """Slow parts of a sequence. `is_followed`: whether something that may fail comes after it.

    `is_linear`: whether the whole pattern is one for engines whose time is linear.
    """
    for number, part in enumerate(parts):
        following = parts[number + 1 :]
        may_fail = is_followed or _is_required(following)
        if part.kind == "assertion":
            for inner in part.parts:
                yield from _find_in_sequence(list(_flatten(inner)), False, is_linear)
        elif part.kind == "choice":
            for branch in part.parts:
                yield from _find_in_sequence(list(_flatten(branch)), may_fail, is_linear)
        elif part.kind == "repetition" and part.backtracks:
            body = [inner for p in part.parts for inner in _flatten(p)]
            if part.most is None and may_fail and _is_ambiguous_loop(body):
                yield part, _EXPONENTIAL
            yield from _find_in_sequence(body, may_fail or part.most is None, is_linear)
        if _repeats(part):
            partner = _find_partner(part, following, is_followed, is_linear)
            if partner is not None:
                pair = PatternPart("sequence", part.start, partner.end)
                yield pair, "has repetitions that match the same characters"


def _find_partner(
    part: PatternPart, following: Sequence[PatternPart], is_followed: bool, is_adjacent: bool
) -> PatternPart | None:
    """A later repetition of a sequence that may match what an earlier one gives back.

    `is_adjacent`: nothing that is required may be between them.
    """
    characters = _characters_of(part)
    for number, later in enumerate(following):
        may_fail = is_followed or _is_required(following[number + 1 :])
        if _repeats(later) and may_fail and characters & _characters_of(later):
            return later
        is_required = later.kind != "assertion" and not _is_optional(later)
        if is_required and (is_adjacent or not characters & _characters_of(later)):
            return None
    return None


def _is_ambiguous_loop(body: Sequence[PatternPart]) -> bool:
    """Whether a text can be divided in many ways among the rounds of a repetition."""
    for number, part in enumerate(body):
        if part.kind == "choice" and _has_common_start(part):
            return True
        rest = [*body[number + 1 :], *body[:number], part]
        if _repeats(part) and _characters_of(part) & _first_characters(rest):
            return True
        if part.kind == "sequence" and _is_ambiguous_loop(list(_flatten(part))):
            return True
    return False


def _has_common_start(choice: PatternPart) -> bool:
    """Whether two branches may match the same text, at least one of them a part of it."""
    branches = [list(_flatten(branch)) for branch in choice.parts]
    for number, branch in enumerate(branches):
        for next_branch in branches[number + 1 :]:
            if _may_start_alike(branch, next_branch):
                return True
    return False


def _may_start_alike(first: Sequence[PatternPart], second: Sequence[PatternPart]) -> bool:
    for a, b in zip(first, second, strict=False):
        if a.kind != "characters" or b.kind != "characters":
            return bool(_first_characters([a]) & _first_characters([b]))
        if not a.characters & b.characters:
            return False
    return True
