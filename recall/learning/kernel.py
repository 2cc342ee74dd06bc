"""The inner loops of the tag model, compiled by numba. Arrays in and out.

For each term, how often each tag occurred with it is a linked list of entries: the first entry of
term k is `heads[k]`, the entry after e is `links[e]`, and -1 ends the list. An entry has its tag
(`entry_tags`), how often the two occurred together (`entry_counts`), and the same with earlier
occurrences of the term counting less (`entry_recent`), as of the occurrence `entry_updates` of the
term. Its weight (`entry_weights`, with the sum of its squared gradients in `entry_squares`) corrects
what the counts say. `term_counts` has the number of occurrences by term. The k-th last occurrence of a term counts
`decay`^(k - 1).

Functions that call each other stay in one file, see `recall.similarity.kernel`.
"""

# What numba compiles has no types for mypy.
# mypy: allow-untyped-defs

import numpy as np

from recall.similarity import compiled


@compiled
def add_occurrences(
    terms,
    tag,
    decay,
    term_counts,
    heads,
    links,
    entry_tags,
    entry_counts,
    entry_recent,
    entry_updates,
    entry_weights,
    entry_squares,
    entry_count,
):
    """Count a tag with each of some terms; return the number of entries.

    The arrays of entries have room for one more entry for each term.
    """
    for number in range(len(terms)):
        term = terms[number]
        term_counts[term] += 1
        entry = heads[term]
        while entry >= 0 and entry_tags[entry] != tag:
            entry = links[entry]
        if entry < 0:
            entry = entry_count
            entry_count += 1
            links[entry] = heads[term]
            heads[term] = entry
            entry_tags[entry] = tag
            entry_counts[entry] = 0
            entry_recent[entry] = 0.0
            entry_updates[entry] = term_counts[term]
            entry_weights[entry] = 0.0
            entry_squares[entry] = 0.0
        age = term_counts[term] - entry_updates[entry]
        entry_recent[entry] = entry_recent[entry] * decay**age + 1.0
        entry_updates[entry] = term_counts[term]
        entry_counts[entry] += 1
    return entry_count


@compiled
def sum_evidence(
    terms,
    groups,
    priors,
    smoothing,
    decay,
    term_counts,
    heads,
    links,
    entry_tags,
    entry_counts,
    entry_recent,
    entry_updates,
    entry_weights,
    entry_squares,
    sums,
    corrections,
    group_sizes,
):
    """Add up by group what terms say about each tag: log(P(tag | term) / P(tag)).

    Row 2·g of `sums` receives the evidence of all occurrences of the terms of group g, row 2·g + 1
    that of recent occurrences; both are zeros before. `groups`: by term of `terms`. `priors`: P(tag).
    A term's P(tag | term) is estimated as if it had occurred `smoothing` times more, with tags as
    in `priors`. `corrections` (by tag, zeros) receives the sum of the weights of entries, and
    `group_sizes` (zeros) the number of terms that have occurred.
    """
    tag_count = len(priors)
    for number in range(len(terms)):
        term = terms[number]
        count = term_counts[term]
        if count == 0:
            continue
        row = 2 * groups[number]
        group_sizes[groups[number]] += 1
        recent_count = count * 1.0
        if decay < 1.0:
            recent_count = (1.0 - decay**count) / (1.0 - decay)
        base = np.log(smoothing / (count + smoothing))
        recent_base = np.log(smoothing / (recent_count + smoothing))
        for tag in range(tag_count):
            sums[row, tag] += base
            sums[row + 1, tag] += recent_base
        entry = heads[term]
        while entry >= 0:
            tag = entry_tags[entry]
            scale = 1.0 / (priors[tag] * smoothing)
            recent = entry_recent[entry] * decay ** (count - entry_updates[entry])
            sums[row, tag] += np.log(entry_counts[entry] * scale + 1.0)
            sums[row + 1, tag] += np.log(recent * scale + 1.0)
            corrections[tag] += entry_weights[entry]
            entry = links[entry]


@compiled
def adjust_weights(
    terms, errors, step, min_square, heads, links, entry_tags, entry_weights, entry_squares
):
    """Move the weights of the entries of some terms against the errors of a prediction (AdaGrad).

    `errors`: by tag, the predicted probability minus 1 for the right tag.
    """
    for number in range(len(terms)):
        entry = heads[terms[number]]
        while entry >= 0:
            error = errors[entry_tags[entry]]
            entry_squares[entry] += error * error
            entry_weights[entry] -= step * error / np.sqrt(min_square + entry_squares[entry])
            entry = links[entry]
