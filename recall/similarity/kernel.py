"""The inner loops of exact TF-IDF over inverted lists, compiled by numba. Arrays in, arrays out.

A search of one segment goes term by term, the rarest first (term-at-a-time with early termination: Turtle & Flood,
Query Evaluation: Strategies and Optimizations, IPM 1995), and leaves the commonest terms' lists unread when what they
can add is too little for the k-th place (Cauchy–Schwarz over the rest of the query, as in L2AP: Anastasiu & Karypis,
ICDE 2014). Who may still get a place is scored from its own terms, in full precision.

A norm depends on E and on C_k of all its terms, which move with each event. Upper bounds of 1/norm are kept instead:
E moves all by the identity norm² = L²·Σtf² − 2L·Σtf²·l_k + Σtf²·l_k² (L = log E, l_k = log C_k), C_k only the rows
that hold its term, and only when log C_k has moved by more than `LAG`.
"""

# What numba compiles has no types for mypy.
# mypy: allow-untyped-defs

from collections.abc import Callable
from typing import Any

import numba
import numpy as np

# How much log C_k may have grown, and log E may lie back, unheeded; by which bounds of norms are lowered for it.
LAG = 0.005
_SLACK = 2 * LAG
# Sums in single precision may be off by so much.
_SINGLE = 1.0 + 1e-5
# Two scores nearer than this may be one after rounding.
_TIE = 1.0 - 1e-11
# Lists are left when the rest of the query is below this part of the k-th score: fewer candidates pay for more lists.
_ENOUGH = 0.15
# Rows looked at together.
_BLOCK = 64
# Of 52 bits of a score 40 stay, as in `recall.similarity.measure`.
_LAST = np.int64(1 << 12)


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile when first called; the machine code is kept beside the source, or where numba keeps it for the user."""
    try:
        made: Callable[..., Any] = numba.njit(cache=True, nogil=True)(function)
    except RuntimeError:  # nowhere to keep it: compile at each start
        made = numba.njit(nogil=True)(function)
    return made


@compiled
def invert(starts, terms, counts, width, heads, docs, times):
    """Rows of terms into lists of rows, ascending. `heads`: zeros, one more than terms."""
    for place in range(len(terms)):
        heads[terms[place] + 1] += 1
    for term in range(width):
        heads[term + 1] += heads[term]
    ends = heads[:width].copy()
    for row in range(len(starts) - 1):
        for place in range(starts[row], starts[row + 1]):
            at = ends[terms[place]]
            docs[at] = row
            times[at] = counts[place]
            ends[terms[place]] += 1


@compiled
def inverse(level, squares, once, twice):
    """An upper bound of 1/norm, infinite for want of a better. `once`, `twice`: Σtf²·l_k, Σtf²·l_k²."""
    norm = np.sqrt(max(level * level * squares - 2.0 * level * once + twice, 0.0)) - _SLACK * np.sqrt(squares)
    return _SINGLE / norm if norm > 1e-6 else np.inf


@compiled
def weigh(level, starts, terms, counts, logs, squares, once, twice, inverses, impacts):
    """Bounds of all rows from nothing. `logs`: l_k by term. `impacts`: by term, the most that tf/norm can be."""
    impacts[:] = 0.0
    for row in range(len(starts) - 1):
        a = b = c = 0.0
        for place in range(starts[row], starts[row + 1]):
            square = float(counts[place]) * float(counts[place])
            log = logs[terms[place]]
            a += square
            b += square * log
            c += square * log * log
        squares[row], once[row], twice[row] = a, b, c
        bound = np.float32(inverse(level, a, b, c))
        inverses[row] = bound
        for place in range(starts[row], starts[row + 1]):
            impacts[terms[place]] = max(impacts[terms[place]], np.float32(counts[place]) * bound)


@compiled
def find(ids, term):
    """The place of a term in ascending ids, -1 for none."""
    low, high = 0, len(ids)
    while low < high:
        middle = (low + high) // 2
        if ids[middle] < term:
            low = middle + 1
        else:
            high = middle
    return low if low < len(ids) and ids[low] == term else -1


@compiled
def lower(
    asked,
    targets,
    level,
    ids,
    order,
    starts,
    terms,
    counts,
    heads,
    docs,
    times,
    logs,
    squares,
    once,
    twice,
    inverses,
    impacts,
):
    """Some terms are held by more: bounds of the rows that hold them. `targets`: their log C_k now."""
    for number in range(len(asked)):
        place = find(ids, asked[number])
        if place < 0:
            continue
        term = order[place]
        old, new = logs[term], min(targets[number], level)
        if new <= old + LAG:
            continue
        logs[term] = new
        for at in range(heads[term], heads[term + 1]):
            row = docs[at]
            square = float(times[at]) * float(times[at])
            once[row] += square * (new - old)
            twice[row] += square * (new * new - old * old)
            bound = np.float32(inverse(level, squares[row], once[row], twice[row]))
            if bound > inverses[row]:
                inverses[row] = bound
                for other in range(starts[row], starts[row + 1]):
                    impacts[terms[other]] = max(impacts[terms[other]], np.float32(counts[other]) * bound)


@compiled
def rests(asked, gains, weights, norm, ids, order, impacts, local, left):
    """What the query's terms from each on can add to a score here; `local`: their numbers here, -1 for none.

    `gains`: tf·idf² of the query's terms, `weights`: tf·idf. `impacts` empty: nothing is known of norms.
    """
    square = linear = 0.0
    left[len(asked)] = 0.0
    for number in range(len(asked) - 1, -1, -1):
        place = find(ids, asked[number])
        local[number] = -1
        if place >= 0:
            term = order[place]
            local[number] = term
            square += weights[number] * weights[number]
            most = weights[number]
            if len(impacts):
                most = min(most, gains[number] * float(impacts[term]))
            linear += most
        left[number] = min(np.sqrt(square), linear) / norm * _SINGLE


@compiled
def search(
    asked,
    targets,
    level,
    counted,
    gains,
    weights,
    norm,
    events,
    holding,
    changed,
    changes,
    ids,
    order,
    known,
    starts,
    terms,
    counts,
    heads,
    docs,
    times,
    logs,
    squares,
    once,
    twice,
    inverses,
    impacts,
    numbers,
    first,
    last,
    number,
    k,
    least,
    sums,
    mine,
    rows,
    scores,
):
    """The k best rows in [first, last) that score at least `least`, into `rows` and `scores`; returns how many.

    The query's terms `asked`, rarest first, with their log C_k (`targets`) and `counted` tf; `level`: see `weigh`; E,
    C_k (`holding`, and what is to be added to it, `changes` of the terms `changed`, ascending). `known`: the ids of the
    segment's terms. `sums`, `mine`: room, zeros before and after. Of equal scores the later row is the better one.
    """
    bounds_of = (starts, terms, counts, heads, docs, times, logs, squares, once, twice, inverses, impacts)
    lower(asked, targets, level, ids, order, *bounds_of)
    local = np.empty(len(asked), dtype=np.int64)
    left = np.empty(len(asked) + 1)
    rests(asked, gains, weights, norm, ids, order, impacts, local, left)
    if left[0] <= 0.0 or left[0] < least * _TIE:
        return 0
    done = 0
    while done < len(asked) and (least <= 0.0 or left[done] >= least * _ENOUGH):
        term = local[done]
        if term >= 0:
            gain = np.float32(gains[done])
            for at in range(heads[term], heads[term + 1]):
                sums[docs[at]] += gain * np.float32(times[at])
        done += 1
    rest = left[done]
    # Who may get a place. Blocks in which nobody may are passed over at once.
    found = 0
    candidates = np.empty(last - first, dtype=np.int64)
    bounds = np.empty(last - first)
    share = _SINGLE / norm
    needed = np.float32((least * _TIE - rest) / share / _SINGLE)
    for begin in range(first, last, _BLOCK):
        end = min(begin + _BLOCK, last)
        some = False
        for row in range(begin, end):
            some |= sums[row] * inverses[row] >= needed
        if not some:
            continue
        for row in range(begin, end):
            total = sums[row]
            if total > 0.0 and total * inverses[row] >= needed and numbers[row] <= number:
                candidates[found] = row
                bounds[found] = min(float(total) * float(inverses[row]) * share, 1.001) + rest
                found += 1
    sums[: len(starts) - 1] = 0.0
    if found == 0:
        return 0
    for one in range(len(asked)):
        if local[one] >= 0:
            mine[local[one]] = counted[one]
    # The most promising first: they set the bar for the others.
    bar = np.partition(bounds[:found], found - k)[found - k] if found > k else 0.0
    cell = np.empty(1)
    bits = cell.view(np.int64)
    best = 0
    for turn in range(2):
        for place in range(found):
            if (bounds[place] >= bar) != (turn == 0):
                continue
            enough = max(least, scores[k - 1] if best == k else 0.0)
            if bounds[place] < enough * _TIE:
                continue
            row = candidates[place]
            if rest > 0.0:
                product = 0.0
                for at in range(starts[row], starts[row + 1]):
                    tf = mine[terms[at]]
                    if tf > 0.0:
                        place_of = terms[at]
                        product += (
                            tf * float(counts[at]) * _square_of(known[place_of], events, holding, changed, changes)
                        )
                if min(product * float(inverses[row]) * share, 1.001) < enough * _TIE:
                    continue
            score = _exact(row, starts, terms, counts, mine, known, events, holding, changed, changes, norm)
            if score <= 0.0:
                continue
            cell[0] = score
            bits[0] = (bits[0] + _LAST // 2) & -_LAST
            best = _take(row, cell[0], k, least, best, rows, scores)
    for one in range(len(asked)):
        if local[one] >= 0:
            mine[local[one]] = 0.0
    return best


@compiled
def _square_of(term, events, holding, changed, changes):
    """IDF² of a term."""
    held = holding[term] if term < len(holding) else 0.0
    place = find(changed, term)
    if place >= 0:
        held += changes[place]
    idf = np.log10(events / max(held, 1.0))
    return idf * idf


@compiled
def _exact(row, starts, terms, counts, mine, known, events, holding, changed, changes, norm):
    """The cosine, its sums compensated (Neumaier 1974), so that their order does not show."""
    product = norms = lost = missing = 0.0
    for at in range(starts[row], starts[row + 1]):
        tf = float(counts[at])
        square = _square_of(known[terms[at]], events, holding, changed, changes)
        part = tf * tf * square
        total = norms + part
        missing += (norms - total) + part if norms >= part else (part - total) + norms
        norms = total
        if mine[terms[at]] > 0.0:
            part = mine[terms[at]] * tf * square
            total = product + part
            lost += (product - total) + part if product >= part else (part - total) + product
            product = total
    product += lost
    return product / np.sqrt((norms + missing) * (norm * norm)) if product > 0.0 else 0.0


@compiled
def _take(row, score, k, least, best, rows, scores):
    """Put a row where it belongs among the best so far; returns how many there are."""
    if score < least or (best == k and (score, row) < (scores[k - 1], rows[k - 1])):
        return best
    at = min(best, k - 1)
    while at > 0 and (scores[at - 1], rows[at - 1]) < (score, row):
        scores[at], rows[at] = scores[at - 1], rows[at - 1]
        at -= 1
    scores[at], rows[at] = score, row
    return min(best + 1, k)
