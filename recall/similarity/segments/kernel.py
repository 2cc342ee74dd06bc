"""The inner loops of exact TF-IDF search over inverted lists, compiled by numba. Arrays in and out.

A search of one segment processes the query term by term, the rarest first (term-at-a-time with
early termination: Turtle & Flood, Query Evaluation: Strategies and Optimizations, IPM 1995). It
skips the inverted lists of the commonest terms if what they can add is too little for the k-th
place (Cauchy–Schwarz over the rest of the query, as in L2AP: Anastasiu & Karypis, ICDE 2014). The
remaining candidates are scored from their own terms, in double precision.

A norm depends on E and on C_k of all its terms, which change with each event. Upper bounds of
1/norm are maintained instead. With L = log10(E) and l_k = log10(C_k), E changes all norms by the
identity norm² = L²·Σtf² − 2L·Σtf²·l_k + Σtf²·l_k². C_k changes only the rows that contain its term,
and only when l_k has grown by more than `MAX_LOG_LAG`.

Arrays of a segment have the names of `recall.similarity.segments.ARRAYS` and `BOUNDS`. Terms are
numbered within the segment, except where a text says "vocabulary". `ids` are the segment's terms by
their vocabulary numbers, ascending, and `order` their numbers within the segment.

Functions that call each other stay in one file: numba's cache is invalidated by source file, so a
caller in another file would keep the old machine code of a changed function.
"""

# What numba compiles has no types for mypy.
# mypy: allow-untyped-defs

import numpy as np

from recall.similarity.compilation import compiled

# How much log10(C_k) may grow before bounds are updated, and how far log10(E) may lie back.
MAX_LOG_LAG = 0.005
# By how much bounds of norms are lowered, relative to √Σtf², to allow for that lag.
_SLACK = 2 * MAX_LOG_LAG
# Relative error of sums in single precision.
_SINGLE_PRECISION_FACTOR = 1.0 + 1e-5
# Scores whose ratio is above this may be equal after rounding.
_TIE_FACTOR = 1.0 - 1e-11
# Inverted lists are skipped once the rest of the query is below this share of the k-th score. A
# smaller share means more lists and fewer candidates; the second one is for `search_bounds`.
_STOP_SHARE = 0.2
_BOUNDS_STOP_SHARE = 0.08
# With known rows, lists are skipped once they can add no more than this to a score.
_SKIPPED_WITH_KNOWN_ROWS = 0.004
_BLOCK_ROWS = 64  # rows tested together
_ESTIMATE_SLACK = 1e-5  # more than the rounding errors of estimates
# As in `recall.similarity.measures`: 40 of the 52 bits of a score remain.
_ROUNDING_UNIT = np.int64(1 << 12)  # units in the last place


@compiled
def inverse_norm_bound(log_event_count, squares, once, twice):
    """An upper bound of 1/norm of a row; infinity if none is known.

    `squares`, `once`, `twice`: Σtf², Σtf²·l_k and Σtf²·l_k².
    """
    square = log_event_count * log_event_count * squares - 2.0 * log_event_count * once + twice
    norm = np.sqrt(max(square, 0.0)) - _SLACK * np.sqrt(squares)
    if norm > 1e-6:
        return _SINGLE_PRECISION_FACTOR / norm
    return np.inf


@compiled
def build_bounds(
    log_event_count, starts, terms, counts, logs, squares, once, twice, inverses, impacts
):
    """Compute the bounds of all rows into the last five arrays.

    `logs`: l_k by term. `impacts`: by term, the maximum of tf/norm.
    """
    impacts[:] = 0.0
    for row in range(len(starts) - 1):
        square_sum = once_sum = twice_sum = 0.0
        for position in range(starts[row], starts[row + 1]):
            square = float(counts[position]) * float(counts[position])
            log = logs[terms[position]]
            square_sum += square
            once_sum += square * log
            twice_sum += square * log * log
        squares[row], once[row], twice[row] = square_sum, once_sum, twice_sum
        bound = np.float32(inverse_norm_bound(log_event_count, square_sum, once_sum, twice_sum))
        inverses[row] = bound
        for position in range(starts[row], starts[row + 1]):
            impact = np.float32(counts[position]) * bound
            impacts[terms[position]] = max(impacts[terms[position]], impact)


@compiled
def find_term(ids, term):
    """The position of a term in ascending ids; -1 if it is not among them."""
    low, high = 0, len(ids)
    while low < high:
        middle = (low + high) // 2
        if ids[middle] < term:
            low = middle + 1
        else:
            high = middle
    if low < len(ids) and ids[low] == term:
        return low
    return -1


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
    """Update the bounds of the rows that contain terms whose C_k has grown.

    `changed_terms`: by their vocabulary numbers; `new_logs`: their l_k now.
    """
    for number in range(len(changed_terms)):
        position = find_term(ids, changed_terms[number])
        if position < 0:
            continue
        term = order[position]
        old, new = logs[term], min(new_logs[number], log_event_count)
        if new <= old + MAX_LOG_LAG:
            continue
        logs[term] = new
        for posting in range(heads[term], heads[term + 1]):
            row = docs[posting]
            square = float(times[posting]) * float(times[posting])
            once[row] += square * (new - old)
            twice[row] += square * (new * new - old * old)
            bound = np.float32(
                inverse_norm_bound(log_event_count, squares[row], once[row], twice[row])
            )
            if bound > inverses[row]:
                inverses[row] = bound
                for row_position in range(starts[row], starts[row + 1]):
                    row_term = terms[row_position]
                    impact = np.float32(counts[row_position]) * bound
                    impacts[row_term] = max(impacts[row_term], impact)


@compiled
def remaining_bounds(
    query_terms, gains, weights, norm, ids, order, impacts, local_terms, remaining
):
    """For each position in the query, what its terms from there on can add to a score.

    Written to `remaining`, which has one element more than the query; `local_terms` receives the
    query's terms by their numbers in the segment, -1 for none. `query_terms`: by their vocabulary
    numbers. `gains`: tf·idf², `weights`: tf·idf. Empty `impacts`: no bounds of norms hold.
    """
    square = linear = 0.0
    remaining[len(query_terms)] = 0.0
    for number in range(len(query_terms) - 1, -1, -1):
        position = find_term(ids, query_terms[number])
        local_terms[number] = -1
        if position >= 0:
            term = order[position]
            local_terms[number] = term
            square += weights[number] * weights[number]
            contribution = weights[number]
            if len(impacts):
                contribution = min(contribution, gains[number] * float(impacts[term]))
            linear += contribution
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
    squared_idf_by_term,
    search_by_term,
    search_number,
    rows,
    scores,
):
    """Write the k best rows in [first, last) into `rows` and `scores`; return how many there are.

    Rows score at least `min_score`; of equal scores the later row is the better one. Only rows with
    a sequence number up to `max_sequence` are considered.

    `query_terms`: by their vocabulary numbers, rarest first, with l_k (`query_logs`), `gains` and
    `weights` as in `remaining_bounds`. `log_event_count`: L of the bounds. `event_count` is E, and
    `document_frequencies` C_k by vocabulary number, to which `frequency_changes` of the ascending
    `changed_terms` are added. `term_ids`: the vocabulary number of each term of the segment. `sums`
    (by row) and `gain_by_term` are scratch: zeros before and after. `squared_idf_by_term` has the
    IDF² of the terms whose `search_by_term` is `search_number`, a number of this search alone.
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
    local_terms = np.empty(len(query_terms), dtype=np.int64)
    remaining = np.empty(len(query_terms) + 1)
    remaining_bounds(query_terms, gains, weights, norm, ids, order, impacts, local_terms, remaining)
    if remaining[0] <= 0.0 or remaining[0] < min_score * _TIE_FACTOR:
        return 0
    skipped_bound = _add_postings(
        local_terms, gains, remaining, min_score * _STOP_SHARE, heads, docs, times, sums
    )
    for number in range(len(query_terms)):
        if local_terms[number] >= 0:
            gain_by_term[local_terms[number]] = gains[number]
    rows_of = starts, terms, counts
    weights_of = (
        term_ids,
        event_count,
        document_frequencies,
        changed_terms,
        frequency_changes,
        squared_idf_by_term,
        search_by_term,
        search_number,
    )
    cell = np.empty(1)
    bits = cell.view(np.int64)
    # The k rows with the highest bounds are scored first: their scores exclude most other rows.
    candidates = np.empty(k, dtype=np.int64)
    candidate_count = _best_candidates(
        sums,
        inverses,
        sequences,
        first,
        last,
        max_sequence,
        _required_sum(min_score, skipped_bound, norm),
        candidates,
    )
    hit_count = 0
    for number in range(candidate_count):
        row = candidates[number]
        score = _score_row(
            row, min_score, skipped_bound, sums, inverses, gain_by_term, norm, rows_of, weights_of
        )
        sums[row] = 0.0
        hit_count = _insert_hit(row, score, k, min_score, hit_count, rows, scores, cell, bits)
    if candidate_count == k:
        required_score = min_score
        if hit_count == k:
            required_score = max(min_score, scores[k - 1])
        required_sum = _required_sum(required_score, skipped_bound, norm)
        for begin in range(first, last, _BLOCK_ROWS):
            end = min(begin + _BLOCK_ROWS, last)
            if not _any_candidate(sums[begin:end], inverses[begin:end], required_sum):
                continue
            for row in range(begin, end):
                if _is_candidate(row, sums, inverses, sequences, max_sequence, required_sum):
                    score = _score_row(
                        row,
                        required_score,
                        skipped_bound,
                        sums,
                        inverses,
                        gain_by_term,
                        norm,
                        rows_of,
                        weights_of,
                    )
                    hit_count = _insert_hit(
                        row, score, k, min_score, hit_count, rows, scores, cell, bits
                    )
                    if hit_count == k and scores[k - 1] > required_score:
                        required_score = scores[k - 1]
                        required_sum = _required_sum(required_score, skipped_bound, norm)
    sums[: len(starts) - 1] = 0.0
    for number in range(len(query_terms)):
        if local_terms[number] >= 0:
            gain_by_term[local_terms[number]] = 0.0
    return hit_count


@compiled
def search_bounds(
    query_terms,
    query_logs,
    log_event_count,
    gains,
    weights,
    norm,
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
    sequences,
    first,
    last,
    max_sequence,
    min_score,
    sums,
    rows,
    bounds,
    known_rows,
    offsets,
    min_estimate,
    estimated_rows,
    estimates,
):
    """Write the rows in [first, last) with the highest upper bounds of their scores into `rows`.

    `bounds` receives these without what skipped lists can add. As many rows are written as there is
    room for, in no order. Returns how many, what the skipped lists can add, and an upper bound of
    the scores of all other rows. For the arguments see `search`.

    The same for estimates of other scores: those of `known_rows`, which are in [first, last), are
    the score of the row plus its offset. `estimated_rows` and `estimates` receive those with the
    highest bounds, at least `min_estimate`. Returned are also how many these are, and an upper bound
    of all other estimates. Known rows may share common terms alone, whose lists are skipped.
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
    local_terms = np.empty(len(query_terms), dtype=np.int64)
    remaining = np.empty(len(query_terms) + 1)
    remaining_bounds(query_terms, gains, weights, norm, ids, order, impacts, local_terms, remaining)
    if remaining[0] <= 0.0:
        return 0, 0.0, 0.0, 0, min_estimate
    if len(known_rows) == 0 and remaining[0] < min_score * _TIE_FACTOR:
        return 0, 0.0, remaining[0], 0, min_estimate
    stop_bound = min_score * _BOUNDS_STOP_SHARE
    if len(known_rows) > 0:
        stop_bound = min(stop_bound, _SKIPPED_WITH_KNOWN_ROWS)
        if min_score <= 0.0:
            stop_bound = _SKIPPED_WITH_KNOWN_ROWS
    skipped_bound = _add_postings(
        local_terms, gains, remaining, stop_bound, heads, docs, times, sums
    )
    required_sum = _required_sum(min_score, skipped_bound, norm)
    count = _best_candidates(
        sums, inverses, sequences, first, last, max_sequence, required_sum, rows
    )
    factor = _SINGLE_PRECISION_FACTOR * _SINGLE_PRECISION_FACTOR / norm
    lowest = np.inf
    for number in range(count):
        row = rows[number]
        bounds[number] = float(sums[row]) * float(inverses[row]) * factor
        lowest = min(lowest, bounds[number])
    others_bound = max(min_score, skipped_bound)
    if count == len(rows):
        others_bound = max(min_score, lowest + skipped_bound)
    estimate_count = _best_estimates(
        known_rows,
        offsets,
        (sums, inverses, sequences),
        max_sequence,
        rows[:count],
        (factor, skipped_bound, others_bound),
        min_estimate,
        estimated_rows,
        estimates,
    )
    others_estimate = min_estimate
    if estimate_count > 0 and estimate_count == len(estimated_rows):
        others_estimate = max(min_estimate, estimates[0])
    sums[: len(starts) - 1] = 0.0
    return count, skipped_bound, others_bound, estimate_count, others_estimate


@compiled
def _best_estimates(
    known_rows,
    offsets,
    row_arrays,
    max_sequence,
    best_rows,
    score_bounds,
    min_estimate,
    estimated_rows,
    estimates,
):
    """Fill `estimated_rows` with the known rows of the highest bounds; return how many.

    `score_bounds`: what bounds of sums are multiplied with, what skipped lists can add, and an upper
    bound of the scores of all rows but `best_rows`. Offsets differ more than the scores of these, so
    that most are excluded by their offset alone. The newest come first: their offsets are the
    highest as a rule. The sums of `best_rows` that are known are changed.
    """
    sums, inverses, sequences = row_arrays
    factor, skipped_bound, others_bound = score_bounds
    slack = skipped_bound + _ESTIMATE_SLACK
    count = 0
    for row in best_rows:
        number = find_term(known_rows, row)
        if number >= 0:
            bound = slack + offsets[number] + float(sums[row]) * float(inverses[row]) * factor
            if bound >= min_estimate:
                count = _push(bound, row, estimates, estimated_rows, count)
            sums[row] = -1.0
    if count == len(estimated_rows):
        min_estimate = max(min_estimate, estimates[0])
    least_offset = min_estimate - others_bound - _ESTIMATE_SLACK
    for end in range(len(known_rows), 0, -_BLOCK_ROWS):
        begin = max(end - _BLOCK_ROWS, 0)
        if not _any_at_least(offsets[begin:end], least_offset):
            continue
        for number in range(end - 1, begin - 1, -1):
            row = known_rows[number]
            # Without branches that depend on sums, which are hard to predict; 0 · ∞ counts as 0.
            score_bound = max(0.0, float(sums[row]) * float(inverses[row]) * factor)
            bound = slack + offsets[number] + score_bound
            if bound < min_estimate:
                continue
            is_open = sums[row] > 0.0 or (sums[row] == 0.0 and skipped_bound > 0.0)
            if is_open and sequences[row] <= max_sequence:
                count = _push(bound, row, estimates, estimated_rows, count)
                if count == len(estimated_rows):
                    min_estimate = max(min_estimate, estimates[0])
                    least_offset = min_estimate - others_bound - _ESTIMATE_SLACK
    return count


@compiled
def _any_at_least(values, least):
    """Whether any value is high enough. Without branches, so that it is vectorised."""
    count = 0
    for number in range(len(values)):
        count += values[number] >= least
    return count > 0


@compiled
def _push(bound, row, bounds, rows, count):
    """Put a row into a heap with the lowest bound on top; return how many rows it has.

    If there is no room, the row replaces the one on top, or is left out if its bound is not higher.
    """
    capacity = len(rows)
    if count < capacity:
        node = count
        count += 1
        while node > 0 and bounds[(node - 1) // 2] > bound:
            parent = (node - 1) // 2
            bounds[node], rows[node] = bounds[parent], rows[parent]
            node = parent
    elif bound > bounds[0]:
        node = 0
        while 2 * node + 1 < capacity:
            child = 2 * node + 1
            if child + 1 < capacity and bounds[child + 1] < bounds[child]:
                child += 1
            if bounds[child] >= bound:
                break
            bounds[node], rows[node] = bounds[child], rows[child]
            node = child
    else:
        return count
    bounds[node], rows[node] = bound, row
    return count


@compiled
def _add_postings(local_terms, gains, remaining, stop_bound, heads, docs, times, sums):
    """Add what the query's terms contribute to `sums`; return what the skipped ones can add.

    Lists are skipped once all that follow can add less than `stop_bound`. `local_terms` and
    `remaining`: see `remaining_bounds`.
    """
    number = 0
    while number < len(local_terms) and remaining[number] >= stop_bound:
        term = local_terms[number]
        if term >= 0:
            gain = np.float32(gains[number])
            for posting in range(heads[term], heads[term + 1]):
                sums[docs[posting]] += gain * np.float32(times[posting])
        number += 1
    return remaining[number]


@compiled
def _required_sum(required_score, skipped_bound, norm):
    """The minimum of a row's sum times its bound of 1/norm if its score is `required_score`."""
    product = (required_score * _TIE_FACTOR - skipped_bound) * norm
    return np.float32(product / _SINGLE_PRECISION_FACTOR / _SINGLE_PRECISION_FACTOR)


@compiled
def _any_candidate(sums, inverses, required_sum):
    """Whether any of the rows may score enough. Without branches, so that it is vectorised."""
    count = 0
    for row in range(len(sums)):
        count += sums[row] * inverses[row] >= required_sum
    return count > 0


@compiled
def _is_candidate(row, sums, inverses, sequences, max_sequence, required_sum):
    """Whether a row may score enough, and entered the corpus up to `max_sequence`."""
    return (
        sums[row] * inverses[row] >= required_sum
        and sums[row] > 0.0
        and sequences[row] <= max_sequence
    )


@compiled
def _best_candidates(
    sums, inverses, sequences, first, last, max_sequence, required_sum, candidates
):
    """Fill `candidates` with the rows in [first, last) of the highest bounds; return how many.

    Bounds are at least `required_sum`. The rows are in no order: they form a heap with the lowest
    bound on top.
    """
    capacity = len(candidates)
    bounds = np.empty(capacity, dtype=np.float32)
    count = 0
    for begin in range(first, last, _BLOCK_ROWS):
        end = min(begin + _BLOCK_ROWS, last)
        if not _any_candidate(sums[begin:end], inverses[begin:end], required_sum):
            continue
        for row in range(begin, end):
            if not _is_candidate(row, sums, inverses, sequences, max_sequence, required_sum):
                continue
            count = _push(sums[row] * inverses[row], row, bounds, candidates, count)
            if count == capacity:
                required_sum = max(required_sum, bounds[0])
    return count


@compiled
def _score_row(
    row, required_score, skipped_bound, sums, inverses, gain_by_term, norm, rows_of, weights_of
):
    """The score of a row; 0 if it is certainly below `required_score`.

    `skipped_bound`: what the terms whose lists were skipped can add.
    """
    starts, terms, counts = rows_of
    bound = float(inverses[row]) * _SINGLE_PRECISION_FACTOR / norm
    if min(float(sums[row]) * bound, 1.001) + skipped_bound < required_score * _TIE_FACTOR:
        return 0.0
    if skipped_bound > 0.0:
        product = 0.0
        for position in range(starts[row], starts[row + 1]):
            product += gain_by_term[terms[position]] * float(counts[position])
        if min(product * bound, 1.001) < required_score * _TIE_FACTOR:
            return 0.0
    return _exact_cosine(row, gain_by_term, norm, rows_of, weights_of)


@compiled
def _squared_idf(term_id, event_count, document_frequencies, changed_terms, frequency_changes):
    """IDF² of a term, by its vocabulary number."""
    frequency = 0.0
    if term_id < len(document_frequencies):
        frequency = document_frequencies[term_id]
    position = find_term(changed_terms, term_id)
    if position >= 0:
        frequency += frequency_changes[position]
    idf = np.log10(event_count / max(frequency, 1.0))
    return idf * idf


@compiled
def _exact_cosine(row, gain_by_term, norm, rows_of, weights_of):
    """The cosine of a row and the query.

    Sums are compensated (Neumaier 1974), so that the order of terms does not matter.
    """
    starts, terms, counts = rows_of
    (
        term_ids,
        event_count,
        document_frequencies,
        changed_terms,
        frequency_changes,
        squared_idf_by_term,
        search_by_term,
        search_number,
    ) = weights_of
    product = square = product_error = square_error = 0.0
    for position in range(starts[row], starts[row + 1]):
        term = terms[position]
        tf = float(counts[position])
        if search_by_term[term] != search_number:
            search_by_term[term] = search_number
            squared_idf_by_term[term] = _squared_idf(
                term_ids[term], event_count, document_frequencies, changed_terms, frequency_changes
            )
        squared_idf = squared_idf_by_term[term]
        part = tf * tf * squared_idf
        total = square + part
        square_error += (square - total) + part if square >= part else (part - total) + square
        square = total
        if gain_by_term[term] > 0.0:
            part = gain_by_term[term] * tf
            total = product + part
            product_error += (
                (product - total) + part if product >= part else (part - total) + product
            )
            product = total
    product += product_error
    if product > 0.0:
        return product / np.sqrt((square + square_error) * (norm * norm))
    return 0.0


@compiled
def _insert_hit(row, score, k, min_score, hit_count, rows, scores, cell, bits):
    """Insert a row among the best so far if it is one of them; return how many there are.

    The score is rounded. `cell`, `bits`: one number of scratch memory, as float and as integer.
    """
    cell[0] = score
    bits[0] = (bits[0] + _ROUNDING_UNIT // 2) & -_ROUNDING_UNIT
    score = cell[0]
    if score <= 0.0 or score < min_score:
        return hit_count
    if hit_count == k and (score, row) < (scores[k - 1], rows[k - 1]):
        return hit_count
    position = min(hit_count, k - 1)
    while position > 0 and (scores[position - 1], rows[position - 1]) < (score, row):
        scores[position], rows[position] = scores[position - 1], rows[position - 1]
        position -= 1
    scores[position], rows[position] = score, row
    return min(hit_count + 1, k)
