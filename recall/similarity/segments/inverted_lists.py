"""Inverted lists of a segment, built by a function that numba compiles. Arrays in and out."""

# What numba compiles has no types for mypy.
# mypy: allow-untyped-defs

from recall.similarity.compilation import compiled


@compiled
def build_postings(starts, terms, counts, width, heads, docs, times):
    """Build inverted lists, ascending by row, into `heads` (zeros), `docs` and `times`.

    `width`: the number of terms; `heads` has one element more.
    """
    for position in range(len(terms)):
        heads[terms[position] + 1] += 1
    for term in range(width):
        heads[term + 1] += heads[term]
    ends = heads[:width].copy()
    for row in range(len(starts) - 1):
        for position in range(starts[row], starts[row + 1]):
            end = ends[terms[position]]
            docs[end] = row
            times[end] = counts[position]
            ends[terms[position]] += 1
