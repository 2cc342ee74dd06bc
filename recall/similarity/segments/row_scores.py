"""Copies and scores of single rows of segments, compiled by numba. Arrays in and out."""

# What numba compiles has no types for mypy.
# mypy: allow-untyped-defs

import numpy as np

from recall.similarity.compilation import compiled

_LN10 = np.log(10.0)
_MAX_FREQUENCY = 4096  # terms above this are few


@compiled
def copy_rows(rows, starts, terms, counts, term_ids, position, copied_terms, copied_counts):
    """Copy rows, with terms by their vocabulary numbers, from `position` on; return where they end."""
    for number in range(len(rows)):
        for source in range(starts[rows[number]], starts[rows[number] + 1]):
            copied_terms[position] = term_ids[terms[source]]
            copied_counts[position] = counts[source]
            position += 1
    return position


@compiled
def score_by_measures(
    query_terms,
    query_counts,
    starts,
    terms,
    counts,
    event_count,
    document_frequencies,
    attributes,
    attribute_count,
    width,
    scores,
):
    """The scores of rows by `attributes`, `tfidf` and `binary`, into the first columns of `scores`.

    `query_terms`: ascending. Terms that are not in the counts share the attribute
    `attribute_count`. All terms are below `width`.
    """
    # Of the terms that occur: logarithms are expensive. Those of the query are negative, or not a
    # number if it is 0. For terms of the same frequency it is computed once.
    idf_by_term = np.zeros(width)
    idf_by_frequency = np.zeros(_MAX_FREQUENCY)
    query_norms = np.zeros(attribute_count + 1)
    query_square = 0.0
    for number in range(len(query_terms)):
        term = query_terms[number]
        idf = _idf(term, event_count, document_frequencies, idf_by_frequency)
        idf_by_term[term] = -idf if idf > 0.0 else np.nan
        query_square += (query_counts[number] * idf) ** 2
        attribute = attributes[term] if term < len(attributes) else attribute_count
        query_norms[attribute] += idf * _LN10
    query_norm_sum = 0.0
    for attribute in range(attribute_count + 1):
        query_norms[attribute] = np.sqrt(query_norms[attribute])
        query_norm_sum += query_norms[attribute]
    overlaps = np.zeros(attribute_count + 1)
    norms = np.zeros(attribute_count + 1)
    for row in range(len(starts) - 1):
        overlaps[:] = 0.0
        norms[:] = 0.0
        product = square = 0.0
        shared = 0
        for position in range(starts[row], starts[row + 1]):
            term = terms[position]
            idf = idf_by_term[term]
            if idf == 0.0:
                idf = _idf(term, event_count, document_frequencies, idf_by_frequency)
                idf_by_term[term] = idf
            attribute = attributes[term] if term < len(attributes) else attribute_count
            if not idf >= 0.0:
                idf = -idf if idf < 0.0 else 0.0
                shared += 1
                overlaps[attribute] += idf * _LN10
                query_count = query_counts[np.searchsorted(query_terms, term)]
                product += counts[position] * query_count * idf * idf
            norms[attribute] += idf * _LN10
            square += (counts[position] * idf) ** 2
        if shared == 0:
            continue
        total = norm_sum = 0.0
        for attribute in range(attribute_count + 1):
            norm = np.sqrt(norms[attribute])
            norm_sum += norm
            if overlaps[attribute] > 0.0:
                total += overlaps[attribute] / np.sqrt(norm * query_norms[attribute])
        if total > 0.0:
            scores[row, 0] = total / np.sqrt(norm_sum * query_norm_sum)
        if product > 0.0:
            scores[row, 1] = product / np.sqrt(square * query_square)
        scores[row, 2] = shared / np.sqrt(float((starts[row + 1] - starts[row]) * len(query_terms)))


@compiled
def _idf(term, event_count, document_frequencies, idf_by_frequency):
    """IDF of a term. `idf_by_frequency`: of small frequencies, 0 if it was not computed yet."""
    frequency = 1.0
    if term < len(document_frequencies):
        frequency = max(document_frequencies[term], 1.0)
    if frequency >= len(idf_by_frequency):
        return np.log10(event_count / frequency)
    number = int(frequency)
    if idf_by_frequency[number] == 0.0:
        idf_by_frequency[number] = np.log10(event_count / frequency)
    return idf_by_frequency[number]
