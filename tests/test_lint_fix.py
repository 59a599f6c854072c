"""The corrected text: edits meet, and the worse one wins."""

from itertools import pairwise

from hypothesis import given, settings, strategies as st

from gpudoctor.lint.fix import apply, chosen
from gpudoctor.lint.lint import lint
from gpudoctor.lint.model import LintJob, Span, TextSection
from gpudoctor.lint.rule import Edit, LintFinding, Severity, rule


def finding(*edits: Edit) -> LintFinding:
    return LintFinding(span=edits[0].span, summary="s", happens="h.", fix="f.", edits=edits)


def edit(start: int, end: int, text: str, *, exact: bool = True) -> Edit:
    return Edit(Span(start, end, 1, exact), text)


def corrected(text: str, *judged: tuple[Severity, LintFinding]) -> str:
    return apply(text, chosen(text, judged))


def test_of_two_edits_in_one_place_the_worse_finding_wins() -> None:
    told: tuple[tuple[Severity, LintFinding], ...] = (
        ("warning", finding(edit(0, 3, "WARNING"))),
        ("error", finding(edit(2, 5, "ERROR"))),
    )
    assert corrected("abcdefgh", *told) == "abERRORfgh"


def test_the_edits_of_a_finding_are_made_all_or_none() -> None:
    both = finding(edit(0, 1, "X"), edit(4, 5, "Y"))
    assert corrected("abcdefgh", ("error", finding(edit(4, 6, "-"))), ("warning", both)) == "abcd-gh"
    assert corrected("abcdefgh", ("warning", both)) == "XbcdYfgh"


def test_the_same_edit_of_two_findings_is_made_once() -> None:
    assert corrected("ab", ("error", finding(edit(1, 1, "-"))), ("error", finding(edit(1, 1, "-")))) == "a-b"


def test_the_same_option_is_not_put_in_twice() -> None:
    told: tuple[tuple[Severity, LintFinding], ...] = (
        ("error", finding(edit(4, 4, "--nnodes=2 "))),
        ("warning", finding(edit(4, 4, "--nnodes=3 "))),
        ("warning", finding(edit(4, 4, "--node-rank=0 "))),
    )
    assert corrected("run x", *told) == "run --nnodes=2 --node-rank=0 x"


def test_what_is_not_exactly_what_stands_there_is_not_edited() -> None:
    assert corrected("abc", ("error", finding(edit(0, 1, "X", exact=False)))) == "abc"
    assert corrected("abc", ("error", finding(edit(2, 9, "X")))) == "abc"


@settings(deadline=None)
@given(
    st.text("abc\n", max_size=12),
    st.lists(
        st.tuples(
            st.sampled_from(("error", "warning", "info")),
            st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12), st.text("XY-", max_size=3)), max_size=3),
        ),
        max_size=6,
    ),
)
def test_any_edits_give_a_text_in_which_what_nobody_touched_stands(
    text: str, told: list[tuple[Severity, list[tuple[int, int, str]]]]
) -> None:
    findings = [
        (severity, finding(*(edit(min(a, b), max(a, b), new) for a, b, new in edits)))
        for severity, edits in told
        if edits
    ]
    taken = chosen(text, findings)
    spans = sorted((each.span.start, each.span.end) for each in taken)
    assert all(before[1] <= after[0] for before, after in pairwise(spans))
    touched = {at for start, end in spans for at in range(start, end)}
    kept = "".join(letter for at, letter in enumerate(text) if at not in touched)
    result = apply(text, taken)
    assert "".join(letter for letter in result if letter in "abc\n") == kept


def test_a_rule_that_crashes_is_told_and_the_others_are_heard() -> None:
    @rule("Z1", "crashes", title="t", severity="error", source="s", bad=(), good=())
    def crashes(job: LintJob):  # type: ignore[no-untyped-def]
        """Raises."""
        raise KeyError("x")
        yield

    @rule("Z2", "fires", title="t", severity="error", source="s", bad=(), good=())
    def fires(job: LintJob):  # type: ignore[no-untyped-def]
        """Fires."""
        yield finding(edit(0, 0, ""))

    job = LintJob(text="x", kind="shell", sections=(TextSection("every", text="x"),))
    report = lint(job, (crashes, fires))
    assert [problem.code for problem in report.problems] == ["Z2"]
    assert any("Z1" in each and "KeyError" in each for each in report.unknown)
    assert report.verdict == "bad"
