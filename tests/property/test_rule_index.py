"""The index loses no pair of a rule and a row, whatever the conditions, rows and characters."""

from datetime import UTC, datetime

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from archiver.delta.schema import ARROW_TYPES
from moirae.evaluation.index import CompiledRule, RuleCompiler, RuleIndex
from moirae.evaluation.index.index_batch import IndexBatch
from moirae.evaluation.index.patterns import Undecided
from recall.query.parsing import parse

TYPES = {"ts": "timestamp", "n": "int", "v": "double", "a": "string", "b": "string"}
# Letters whose case is special, and some that form words with them.
LETTERS = "aAiIsSkKßẞıİſ\u212aσςΣﬁxX\u0307é®日 .\\\n"

words = st.text(alphabet=LETTERS, max_size=4)
texts = st.none() | st.lists(words, max_size=4).map("".join) | st.text(max_size=6)
rows = st.tuples(st.none() | st.integers(-3, 3), st.none() | st.floats(width=32), texts, texts)


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _regex(word: str) -> str:
    return "".join(
        letter if letter.isalnum() else f"\\{letter}" for letter in word if letter != "\n"
    )


columns = st.sampled_from(["a", "b"])
constants = words.filter(lambda word: not set(word) & set("σςΣ\0"))
cased = st.sampled_from(["{}", "lower({})", "upper({})"])


@st.composite
def comparisons(draw: st.DrawFn) -> str:
    operand = draw(cased).format(draw(columns))
    word = draw(constants)
    form = draw(st.integers(0, 8))
    if form == 0:
        return f"{operand} = {_quoted(word)}"
    if form == 1:
        function = draw(st.sampled_from(["contains", "startswith", "endswith"]))
        return f"{function}({operand}, {_quoted(word)})"
    if form == 2:
        others = draw(st.lists(constants, min_size=1, max_size=3))
        return f"{operand} IN ({', '.join(map(_quoted, [word, *others]))})"
    if form == 3:
        pattern = draw(st.sampled_from(["%{}%", "{}%", "%{}", "{}", "%{}_"]))
        like = pattern.format(word.replace("\\", "").replace("\n", ""))
        return f"{operand} LIKE {_quoted(like)}"
    if form == 4:
        flags = draw(st.sampled_from(["", "(?i)", "(?iu)", "(?isu)"]))
        pattern = draw(
            st.sampled_from(["{0}", "^{0}", "{0}$", ".*({0}|{1}).*", "[{2}]{0}", "{0}.{1}"])
        )
        body = pattern.format(_regex(word), _regex(draw(constants)), "aks")
        return f"{draw(columns)} RLIKE {_quoted(flags + body)}"
    if form == 5:
        return f"n {draw(st.sampled_from(['=', '<', '>', '<=', '>=', '<>']))} {draw(st.integers(-3, 3))}"
    if form == 6:
        return f"v {draw(st.sampled_from(['=', '<', '>', '<=', '>=']))} {draw(st.integers(-3, 3))}"
    if form == 7:
        return f"trim({operand}) = {_quoted(word)}"
    return f"{operand} IS NULL"


def _combined(children: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    pairs = st.tuples(children, children)
    return st.one_of(
        pairs.map(lambda pair: f"({pair[0]} AND {pair[1]})"),
        pairs.map(lambda pair: f"({pair[0]} OR {pair[1]})"),
        children.map(lambda child: f"(NOT {child})"),
    )


conditions = st.recursive(comparisons(), _combined, max_leaves=5)


def _holds(rule: CompiledRule, row: tuple[object, ...]) -> bool | None:
    try:
        return rule.holds(row)
    except Undecided:
        return None


@given(st.lists(conditions, min_size=1, max_size=8), st.lists(rows, min_size=1, max_size=12))
def test_index_finds_every_row_for_which_a_condition_holds(
    sql: list[str], values: list[tuple[int | None, float | None, str | None, str | None]]
) -> None:
    compiler = RuleCompiler({"s": TYPES})
    rules = [
        compiler.compile_filter(parse(f"SELECT ts, n FROM s WHERE {text}"), {"n": "int"})
        for text in sql
    ]
    table_columns: dict[str, object] = {
        "ts": pa.array([datetime(2026, 1, 1, tzinfo=UTC)] * len(values), ARROW_TYPES["timestamp"])
    }
    for number, name in enumerate(["n", "v", "a", "b"]):
        column = [row[number] for row in values]
        table_columns[name] = pa.array(column, ARROW_TYPES[TYPES[name]])
    table = pa.table(table_columns)
    layout = compiler.layouts["s"]
    all_rows = IndexBatch(table, layout).rows
    expected: set[tuple[int, int]] = set()
    expected_undecided: set[tuple[int, int]] = set()
    for rule_number, rule in enumerate(rules):
        for row_number, row in enumerate(all_rows):
            truth = _holds(rule, tuple(row))
            if truth is None:
                expected_undecided.add((rule_number, row_number))
            elif truth:
                expected.add((rule_number, row_number))
    matches: set[tuple[int, int]] = set()
    undecided: set[tuple[int, int]] = set()
    for verdicts in RuleIndex(rules, layout).evaluate(table):
        matches.update((verdicts.rule, row) for row in verdicts.rows)
        undecided.update((verdicts.rule, row) for row in verdicts.undecided)
    # A row without an anchor of a rule needs no answer of Spark.
    assert matches == expected
    assert undecided <= expected_undecided
