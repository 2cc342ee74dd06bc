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
MAX_LOG_LAG = 0.005
_SLACK = 2 * MAX_LOG_LAG
# Sums in single precision may be off by so much.
_SINGLE_PRECISION_FACTOR = 1.0 + 1e-5
# Two scores nearer than this may be one after rounding.
_TIE_FACTOR = 1.0 - 1e-11
# Lists are left when the rest of the query is below this part of the k-th score: fewer candidates pay for more lists.
_STOP_SHARE = 0.2
# Rows looked at together.
_BLOCK_ROWS = 64
# Of 52 bits of a score 40 stay, as in `recall.similarity.measure`.
_ROUNDING_UNIT = np.int64(1 << 12)


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile when first called; the machine code is kept beside the source, or where numba keeps it for the user."""
    try:
        made: Callable[..., Any] = numba.njit(cache=True, nogil=True)(function)
    except RuntimeError:  # nowhere to keep it: compile at each start
        made = numba.njit(nogil=True)(function)
    return made


@compiled
def build_postings(starts, terms, counts, width, heads, docs, times):
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
def inverse_norm_bound(log_event_count, squares, once, twice):
    """An upper bound of 1/norm, infinite for want of a better. `once`, `twice`: Σtf²·l_k, Σtf²·l_k²."""
    norm = np.sqrt(
        max(log_event_count * log_event_count * squares - 2.0 * log_event_count * once + twice, 0.0)
    ) - _SLACK * np.sqrt(squares)
    return _SINGLE_PRECISION_FACTOR / norm if norm > 1e-6 else np.inf


@compiled
def build_bounds(
    log_event_count, starts, terms, counts, logs, squares, once, twice, inverses, impacts
):
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
        bound = np.float32(inverse_norm_bound(log_event_count, a, b, c))
        inverses[row] = bound
        for place in range(starts[row], starts[row + 1]):
            impacts[terms[place]] = max(impacts[terms[place]], np.float32(counts[place]) * bound)


@compiled
def find_term(ids, term):
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
def update_bounds(
    changed_terms,
    new_logs,
    log_event_count,
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
    for number in range(len(changed_terms)):
        place = find_term(ids, changed_terms[number])
        if place < 0:
            continue
        term = order[place]
        old, new = logs[term], min(new_logs[number], log_event_count)
        if new <= old + MAX_LOG_LAG:
            continue
        logs[term] = new
        for at in range(heads[term], heads[term + 1]):
            row = docs[at]
            square = float(times[at]) * float(times[at])
            once[row] += square * (new - old)
            twice[row] += square * (new * new - old * old)
            bound = np.float32(
                inverse_norm_bound(log_event_count, squares[row], once[row], twice[row])
            )
            if bound > inverses[row]:
                inverses[row] = bound
                for other in range(starts[row], starts[row + 1]):
                    impacts[terms[other]] = max(
                        impacts[terms[other]], np.float32(counts[other]) * bound
                    )


@compiled
def remaining_bounds(
    query_terms, gains, weights, norm, ids, order, impacts, local_terms, remaining
):
    """What the query's terms from each on can add to a score here; `local`: their numbers here, -1 for none.

    `gains`: tf·idf² of the query's terms, `weights`: tf·idf. `impacts` empty: nothing is known of norms.
    """
    square = linear = 0.0
    remaining[len(query_terms)] = 0.0
    for number in range(len(query_terms) - 1, -1, -1):
        place = find_term(ids, query_terms[number])
        local_terms[number] = -1
        if place >= 0:
            term = order[place]
            local_terms[number] = term
            square += weights[number] * weights[number]
            most = weights[number]
            if len(impacts):
                most = min(most, gains[number] * float(impacts[term]))
            linear += most
        remaining[number] = min(np.sqrt(square), linear) / norm * _SINGLE_PRECISION_FACTOR


@compiled
def search(
    query_terms,
    query_logs,
    log_event_count,
    gains,
    weights,
    norm,
    event_count,
    document_frequencies,
    changed_terms,
    frequency_changes,
    ids,
    order,
    term_ids,
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
    sequences,
    first,
    last,
    max_sequence,
    k,
    min_score,
    sums,
    gain_by_term,
    rows,
    scores,
):
    """The k best rows in [first, last) that score at least `least`, into `rows` and `scores`; returns how many.

    The query's terms `asked`, rarest first, with their log C_k (`targets`), `gains` and `weights` as in `rests`;
    `level`: see `weigh`; E, C_k (`holding`, and what is to be added to it, `changes` of the terms `changed`,
    ascending). `known`: the ids of the segment's terms. `sums`, `mine`: room, zeros before and after. Of equal scores
    the later row is the better one.
    """
    bounds_of = (
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
    )
    update_bounds(query_terms, query_logs, log_event_count, ids, order, *bounds_of)
    local = np.empty(len(query_terms), dtype=np.int64)
    left = np.empty(len(query_terms) + 1)
    remaining_bounds(query_terms, gains, weights, norm, ids, order, impacts, local, left)
    if left[0] <= 0.0 or left[0] < min_score * _TIE_FACTOR:
        return 0
    done = 0
    while done < len(query_terms) and (min_score <= 0.0 or left[done] >= min_score * _STOP_SHARE):
        term = local[done]
        if term >= 0:
            gain = np.float32(gains[done])
            for at in range(heads[term], heads[term + 1]):
                sums[docs[at]] += gain * np.float32(times[at])
        done += 1
    rest = left[done]
    for one in range(len(query_terms)):
        if local[one] >= 0:
            gain_by_term[local[one]] = gains[one]
    # The k that promise most come first: they set the bar for the others.
    rows_of = starts, terms, counts
    weights_of = term_ids, event_count, document_frequencies, changed_terms, frequency_changes
    promising = np.empty(k, dtype=np.int64)
    found = _best_candidates(
        sums,
        inverses,
        sequences,
        first,
        last,
        max_sequence,
        _required_sum(min_score, rest, norm),
        promising,
    )
    best = 0
    cell = np.empty(1)
    bits = cell.view(np.int64)
    for place in range(found):
        row = promising[place]
        score = _score_row(
            row, min_score, rest, sums, inverses, gain_by_term, norm, rows_of, weights_of
        )
        sums[row] = 0.0
        best = _insert_hit(row, score, k, min_score, best, rows, scores, cell, bits)
    if found == k:
        enough = max(min_score, scores[k - 1] if best == k else 0.0)
        needed = _required_sum(enough, rest, norm)
        for begin in range(first, last, _BLOCK_ROWS):
            end = min(begin + _BLOCK_ROWS, last)
            if not _any_candidate(sums[begin:end], inverses[begin:end], needed):
                continue
            for row in range(begin, end):
                if _is_candidate(row, sums, inverses, sequences, max_sequence, needed):
                    score = _score_row(
                        row, enough, rest, sums, inverses, gain_by_term, norm, rows_of, weights_of
                    )
                    best = _insert_hit(row, score, k, min_score, best, rows, scores, cell, bits)
                    if best == k and scores[k - 1] > enough:
                        enough = scores[k - 1]
                        needed = _required_sum(enough, rest, norm)
    sums[: len(starts) - 1] = 0.0
    for one in range(len(query_terms)):
        if local[one] >= 0:
            gain_by_term[local[one]] = 0.0
    return best


@compiled
def _required_sum(enough, rest, norm):
    """What a row's sum by its bound of 1/norm is at least where its score may be `enough`."""
    return np.float32(
        (enough * _TIE_FACTOR - rest) * norm / _SINGLE_PRECISION_FACTOR / _SINGLE_PRECISION_FACTOR
    )


@compiled
def _any_candidate(sums, inverses, needed):
    """Whether any of some rows may score enough."""
    many = 0
    for at in range(len(sums)):
        many += sums[at] * inverses[at] >= needed
    return many > 0


@compiled
def _is_candidate(row, sums, inverses, numbers, number, needed):
    """Whether a row may score enough, and is one of those asked for."""
    return sums[row] * inverses[row] >= needed and sums[row] > 0.0 and numbers[row] <= number


@compiled
def _best_candidates(sums, inverses, numbers, first, last, number, needed, promising):
    """The rows in [first, last) of the largest bounds that are `needed` or more, as many as there is room for, in any
    order; returns how many. They are kept as a heap, the least promising on top."""
    room = len(promising)
    bounds = np.empty(room, dtype=np.float32)
    found = 0
    for begin in range(first, last, _BLOCK_ROWS):
        end = min(begin + _BLOCK_ROWS, last)
        if not _any_candidate(sums[begin:end], inverses[begin:end], needed):
            continue
        for row in range(begin, end):
            if not _is_candidate(row, sums, inverses, numbers, number, needed):
                continue
            bound = sums[row] * inverses[row]
            if found < room:
                at = found
                found += 1
                while at > 0 and bounds[(at - 1) // 2] > bound:
                    bounds[at], promising[at] = bounds[(at - 1) // 2], promising[(at - 1) // 2]
                    at = (at - 1) // 2
            elif bound > bounds[0]:
                at = 0
                while 2 * at + 1 < room:
                    child = 2 * at + 1
                    if child + 1 < room and bounds[child + 1] < bounds[child]:
                        child += 1
                    if bounds[child] >= bound:
                        break
                    bounds[at], promising[at] = bounds[child], promising[child]
                    at = child
            else:
                continue
            bounds[at], promising[at] = bound, row
            if found == room:
                needed = max(needed, bounds[0])
    return found


@compiled
def _score_row(row, enough, rest, sums, inverses, mine, norm, rows_of, weights_of):
    """What a row scores; 0 where that is less than enough for sure. `rest`: what the lists that were left may add."""
    starts, terms, counts = rows_of
    bound = float(inverses[row]) * _SINGLE_PRECISION_FACTOR / norm
    if min(float(sums[row]) * bound, 1.001) + rest < enough * _TIE_FACTOR:
        return 0.0
    if rest > 0.0:
        product = 0.0
        for at in range(starts[row], starts[row + 1]):
            product += mine[terms[at]] * float(counts[at])
        if min(product * bound, 1.001) < enough * _TIE_FACTOR:
            return 0.0
    return _exact_cosine(row, mine, norm, rows_of, weights_of)


@compiled
def _squared_idf(term, events, holding, changed, changes):
    """IDF² of a term."""
    held = holding[term] if term < len(holding) else 0.0
    place = find_term(changed, term)
    if place >= 0:
        held += changes[place]
    idf = np.log10(events / max(held, 1.0))
    return idf * idf


@compiled
def _exact_cosine(row, mine, norm, rows_of, weights_of):
    """The cosine, its sums compensated (Neumaier 1974), so that their order does not show."""
    starts, terms, counts = rows_of
    known, events, holding, changed, changes = weights_of
    product = norms = lost = missing = 0.0
    for at in range(starts[row], starts[row + 1]):
        tf = float(counts[at])
        square = _squared_idf(known[terms[at]], events, holding, changed, changes)
        part = tf * tf * square
        total = norms + part
        missing += (norms - total) + part if norms >= part else (part - total) + norms
        norms = total
        if mine[terms[at]] > 0.0:
            part = mine[terms[at]] * tf
            total = product + part
            lost += (product - total) + part if product >= part else (part - total) + product
            product = total
    product += lost
    return product / np.sqrt((norms + missing) * (norm * norm)) if product > 0.0 else 0.0


@compiled
def _insert_hit(row, score, k, least, best, rows, scores, cell, bits):
    """Put a row where it belongs among the best so far, if it scores at all; returns how many there are.

    `cell`, `bits`: room to round a score in.
    """
    cell[0] = score
    bits[0] = (bits[0] + _ROUNDING_UNIT // 2) & -_ROUNDING_UNIT
    score = cell[0]
    if score <= 0.0 or score < least or (best == k and (score, row) < (scores[k - 1], rows[k - 1])):
        return best
    at = min(best, k - 1)
    while at > 0 and (scores[at - 1], rows[at - 1]) < (score, row):
        scores[at], rows[at] = scores[at - 1], rows[at - 1]
        at -= 1
    scores[at], rows[at] = score, row
    return min(best + 1, k)
