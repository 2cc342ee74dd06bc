"""The inner loops of the tag model, compiled by numba. Arrays in and out.

For each term, how often each tag occurred with it is a linked list of entries: the first entry of
term k is `heads[k]`, the entry after e is `entries[e].links`, and -1 ends the list. An entry has its
tag (`entry_tags`), how often the two occurred together (`entry_counts`), and the same with earlier
occurrences of the term counting less (`entry_recent`), as of the occurrence `entry_updates` of the
term. Its weight (`entry_weights`, with the sum of its squared gradients in `entry_squares`) corrects
what the counts say. `term_counts` has the number of occurrences by term. The k-th last occurrence
of a term counts `decay`^(k - 1).

An entry is one record of 28 bytes, so that reading it is one access to memory: there may be millions.

Functions that call each other stay in one file, see `recall.similarity.segments.kernel`.
"""

# What numba compiles has no types for mypy.
# mypy: allow-untyped-defs

import numpy as np

from recall.similarity import compiled

ENTRY = np.dtype(
    [
        ("links", np.int32),
        ("entry_tags", np.int32),
        ("entry_counts", np.int32),
        ("entry_recent", np.float32),
        ("entry_updates", np.int32),
        ("entry_weights", np.float32),
        ("entry_squares", np.float32),
    ]
)
# Products above this are replaced by their logarithm.
_MAX_PRODUCT = 1e200
# Powers of the decay are computed once, up to this exponent; later ones are about 0.
_MAX_AGE = 2048


@compiled
def add_occurrences(terms, tag, decay, term_counts, heads, entries, entry_count):
    """Count a tag with each of some terms; return the number of entries.

    `entries` has room for one more entry for each term.
    """
    for number in range(len(terms)):
        term = terms[number]
        term_counts[term] += 1
        position, end = heads[term], -1
        while position >= 0 and entries[position].entry_tags != tag:
            position, end = entries[position].links, position
        if position < 0:
            # At the end: the first tags of a term are likely to be its frequent ones.
            position = entry_count
            entry_count += 1
            entry = entries[position]
            entry.links = -1
            if end < 0:
                heads[term] = position
            else:
                entries[end].links = position
            entry.entry_tags = tag
            entry.entry_counts = 0
            entry.entry_recent = 0.0
            entry.entry_updates = term_counts[term]
            entry.entry_weights = 0.0
            entry.entry_squares = 0.0
        entry = entries[position]
        age = term_counts[term] - entry.entry_updates
        entry.entry_recent = entry.entry_recent * decay**age + 1.0
        entry.entry_updates = term_counts[term]
        entry.entry_counts += 1
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
    entries,
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
    powers = np.empty(_MAX_AGE)
    powers[0] = 1.0
    for age in range(1, _MAX_AGE):
        powers[age] = powers[age - 1] * decay
    scales = 1.0 / (priors * smoothing)
    # Logarithms are expensive: factors are multiplied first.
    products = np.ones(sums.shape)
    bases = np.zeros(len(sums))
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
        bases[row] += np.log(smoothing / (count + smoothing))
        bases[row + 1] += np.log(smoothing / (recent_count + smoothing))
        position = heads[term]
        while position >= 0:
            entry = entries[position]
            tag = entry.entry_tags
            products[row, tag] *= entry.entry_counts * scales[tag] + 1.0
            if products[row, tag] > _MAX_PRODUCT:
                sums[row, tag] += np.log(products[row, tag])
                products[row, tag] = 1.0
            age = count - entry.entry_updates
            if age < _MAX_AGE:
                recent = entry.entry_recent * powers[age]
                products[row + 1, tag] *= recent * scales[tag] + 1.0
                if products[row + 1, tag] > _MAX_PRODUCT:
                    sums[row + 1, tag] += np.log(products[row + 1, tag])
                    products[row + 1, tag] = 1.0
            corrections[tag] += entry.entry_weights
            position = entry.links
    for row in range(len(sums)):
        for tag in range(tag_count):
            sums[row, tag] += bases[row]
            if products[row, tag] != 1.0:
                sums[row, tag] += np.log(products[row, tag])


@compiled
def summarize_entries(
    scales,
    smoothing,
    decay,
    weights,
    recent_weights,
    term_counts,
    heads,
    entries,
    starts,
    bases,
    tags,
    values,
    corrections,
):
    """Add up what entries say, weighted, term by term.

    `scales`: by tag, 1 / (P(tag) · smoothing). `weights` and `recent_weights`: by term, those of
    its attribute, for all and for recent occurrences. The entries of term k are from `starts[k]` to
    before `starts[k + 1]` of `tags`, `values` and `corrections`. `bases`: by term, what is added for
    each tag.
    """
    end = 0
    for term in range(len(starts) - 1):
        starts[term] = end
        count = term_counts[term]
        if count == 0:
            continue
        recent_count = count * 1.0
        if decay < 1.0:
            recent_count = (1.0 - decay**count) / (1.0 - decay)
        bases[term] = weights[term] * np.log(smoothing / (count + smoothing))
        bases[term] += recent_weights[term] * np.log(smoothing / (recent_count + smoothing))
        position = heads[term]
        while position >= 0:
            entry = entries[position]
            tag = entry.entry_tags
            value = weights[term] * np.log(entry.entry_counts * scales[tag] + 1.0)
            if recent_weights[term] > 0.0:
                recent = entry.entry_recent * decay ** (count - entry.entry_updates)
                value += recent_weights[term] * np.log(recent * scales[tag] + 1.0)
            tags[end], values[end] = tag, value
            corrections[end] = entry.entry_weights
            end += 1
            position = entry.links
    starts[len(starts) - 1] = end


@compiled
def add_evidence(
    terms,
    attributes,
    attribute_count,
    context_size,
    known_terms,
    starts,
    bases,
    tags,
    values,
    corrections,
    logits,
):
    """Add what terms say to the logarithm of each tag's probability, see `summarize_entries`.

    `known_terms`: by term, whether it has occurred. `attributes`: by term. `context_size`: the number of
    terms of the context, with those that are left out.
    """
    sizes = np.zeros(attribute_count)
    for term in terms:
        if known_terms[term]:
            sizes[attributes[term]] += 1.0
    base = 0.0
    correction_factor = 1.0 / np.sqrt(max(context_size, 1))
    for term in terms:
        if not known_terms[term]:
            continue
        damping = 1.0 / np.sqrt(sizes[attributes[term]])
        base += damping * bases[term]
        for position in range(starts[term], starts[term + 1]):
            value = damping * values[position] + correction_factor * corrections[position]
            logits[tags[position]] += value
    for tag in range(len(logits)):
        logits[tag] += base


@compiled
def adjust_weights(terms, errors, step, min_square, heads, entries):
    """Move the weights of the entries of some terms against the errors of a prediction (AdaGrad).

    `errors`: by tag, the predicted probability minus 1 for the right tag.
    """
    for number in range(len(terms)):
        position = heads[terms[number]]
        while position >= 0:
            entry = entries[position]
            error = errors[entry.entry_tags]
            entry.entry_squares += error * error
            entry.entry_weights -= step * error / np.sqrt(min_square + entry.entry_squares)
            position = entry.links
