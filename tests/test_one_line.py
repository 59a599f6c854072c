"""What people type into a search, asked of `explain`: tests/corpus/one_line.txt."""

from tests.corpus.one_line import OneLine, one_lines


def test_most_are_classed_rightly_few_wrongly_and_what_tells_no_fault_accuses_nobody() -> None:
    lines = list(one_lines())
    assert not [line for line in lines if not line.classes and line.answered]
    assert sum(line.wrong for line in lines) <= 7
    for half, least in (("tune", 67), ("keep", 62)):
        of_half: list[OneLine] = [line for line in lines if line.half == half]
        assert sum(line.right for line in of_half) >= least
