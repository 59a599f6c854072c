"""A text is split by node, job and file."""

import pytest
from hypothesis import given, strategies as st

from gpudoctor.lint.sections import split


def told(text: str) -> list[tuple[str, int | None, str]]:
    return [(each.kind, each.node if each.kind != "job" else each.job, each.text) for each in split(text)]


def test_without_marks_it_is_the_text_of_every_node() -> None:
    assert told("torchrun a\n") == [("every", None, "torchrun a\n")]


def test_marks() -> None:
    text = (
        "export A=1\n#@ node 0\na\n#@ every node\nb\n#@ job 1, same host\nc\n#@ file host file\nd\n#@ node 12: n01\ne"
    )
    assert told(text) == [
        ("every", None, "export A=1\n"),
        ("node", 0, "a\n"),
        ("every", None, "b\n"),
        ("job", 1, "c\n"),
        ("file", None, "d\n"),
        ("node", 12, "e"),
    ]
    assert [each.line for each in split(text)] == [1, 3, 5, 7, 9, 11]
    assert split(text)[4].name == "host file"


def test_comments_that_say_the_same() -> None:
    assert told("# node 0:\ntorchrun a\n# node 1:\ntorchrun b\n") == [
        ("node", 0, "torchrun a\n"),
        ("node", 1, "torchrun b\n"),
    ]
    text = "export A=1\n# On machine 1 (10.0.0.1)\npython a.py\n# On machine 2\npython b.py"
    assert [each[:2] for each in told(text)] == [("every", None), ("node", 0), ("node", 1)]
    assert [each[:2] for each in told("# first node\ntorchrun a\n# second node\ntorchrun b")] == [
        ("node", 0),
        ("node", 1),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "# node 0\ntorchrun a\n",
        "# node 0\ntorchrun a\n# node 5\ntorchrun b",
        "# node 0\ntorchrun a\n# node 0\ntorchrun b",
        "#SBATCH -N2\n# head node\nh=1\n# worker node\ntorchrun b",
        "# node 0\nif a; then\n# node 1\ntorchrun b\nfi",
        "# 2 nodes, 4 GPUs\ntorchrun a\n# run on 1 node\ntorchrun b",
    ],
)
def test_comments_that_may_mean_something_else(text: str) -> None:
    assert told(text) == [("every", None, text)]


@given(
    st.lists(st.sampled_from(["#@ node 1", "#@", "#@ file x", "# node 0", "# node 1:", "torchrun a", "\r", "é", "fi"]))
)
def test_sections_stand_where_they_say(lines: list[str]) -> None:
    text = "\n".join(lines)
    for section in split(text):
        assert text[section.start : section.start + len(section.text)] == section.text
        assert section.line == text.count("\n", 0, section.start) + 1
