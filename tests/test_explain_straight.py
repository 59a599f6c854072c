"""Pastes that are not as their programs wrote them are answered like what was written."""

import html
import io
import json
import textwrap
from collections.abc import Callable

import pytest
from hypothesis import given, strategies as st

from gpudoctor.explain.explain import explain
from gpudoctor.explain.report import Explanation
from gpudoctor.explain.straight import MOST_BYTES, straight

WRITTEN = """\
INFO the data lies on /mnt/lustre/projects/vision/imagenet-22k/train, which holds 14,197,122 images in 21,841 folders
Epoch 0:  12%|#2        | 120/1000 [01:10<08:34,  1.71it/s, loss=6.91]
Traceback (most recent call last):
  File "/home/mara/projects/classification/experiments/2025-08/train.py", line 141, in <module>
    main()
  File "/home/mara/projects/classification/experiments/2025-08/train.py", line 96, in main
    loss.backward()
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.91 GiB. GPU 2 has a total capacity of 79.11 GiB of which 1.20 GiB is free.
"""  # noqa: E501 - as it stands in logs


def asked(text: str) -> Explanation:
    return explain(["-"], stdin=io.BytesIO(text.encode()))


def folded(text: str, width: int) -> str:
    return "\n".join(line[at : at + width] for line in text.split("\n") for at in range(0, max(1, len(line)), width))


SHAPES: dict[str, Callable[[str], str]] = {
    "folded at 80": lambda text: folded(text, 80),
    "folded at 100, quoted": lambda text: "".join(f"> {line}\n" for line in folded(text, 100).split("\n")),
    "a string of JSON": lambda text: json.dumps({"id": 7, "log": text}),
    "Python's repr": lambda text: f"failed: {text!r}",
    "docker's lines": lambda text: "".join(
        json.dumps({"log": f"{line}\n", "stream": "stderr", "time": "2025-08-19T11:40:02.1Z"}) + "\n"
        for line in text.splitlines()
    ),
    "structured lines": lambda text: "".join(
        json.dumps({"level": "info", "msg": line}) + "\n" for line in text.splitlines()
    ),
    "HTML": html.escape,
    "curled quotes": lambda text: text.replace('"', "\u201d").replace("'", "\u2019"),
    "hard blanks and a mark": lambda text: "\ufeff" + text.replace("  ", "\u00a0 "),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_the_shape_of_a_paste_changes_no_answer(shape: str) -> None:
    whole, pasted = asked(WRITTEN), asked(SHAPES[shape](WRITTEN))
    assert pasted.causes[0].cause == whole.causes[0].cause == "gpu-out-of-memory"
    assert pasted.causes[0].summary == whole.causes[0].summary


def test_lines_have_the_numbers_of_what_was_given() -> None:
    text = folded(WRITTEN, 80)
    (first, *_) = asked(text).causes[0].evidence
    assert text.split("\n")[first.line - 1].startswith("torch.OutOfMemoryError")
    assert {line.line for line in asked(json.dumps({"log": WRITTEN})).causes[0].evidence} == {1}


@pytest.mark.parametrize(
    "text",
    [
        WRITTEN,
        "".join(f"[rank{rank}] this is the longest line that the program has written\n" for rank in range(8)),
        "| a table | of equal |\n" * 5 + "| with b  | rows     |\n",
        '{"epoch": 1}\n{"epoch": 2}\n',
        r"C:\new\name\nothing" + "\n",
    ],
)  # fmt: skip
def test_what_is_as_it_was_written_stays_so(text: str) -> None:
    assert straight(text.encode()) is None
    assert straight(text.encode() * (MOST_BYTES // len(text.encode()) + 1)) is None


@given(st.text(st.sampled_from("ab \n\\\"'{}:n>&;lt80\u201c"), max_size=400))
def test_every_line_has_a_number_of_the_text(text: str) -> None:
    found = straight(text.encode())
    if found is not None:
        assert len(found.numbers) == found.text.count(b"\n") + 1
        assert set(found.numbers) <= set(range(1, text.count("\n") + 2))
        assert list(found.numbers) == sorted(found.numbers)


MAILED = """step 40 | loss 2.31
ERROR: Unexpected bus error encountered in worker. This might be caused by insufficient shared memory (shm).
Traceback (most recent call last):
File "/w/t.py", line 61, in <module>
RuntimeError: DataLoader worker (pid 411) is killed by signal: Bus error. It is possible that dataloader's workers are \
out of shared memory. Please try to raise your shared memory limit.
"""


def test_what_a_mail_folded_between_words_is_joined() -> None:
    folded = [textwrap.wrap(line, 72, break_long_words=False, break_on_hyphens=False) for line in MAILED.splitlines()]
    found = straight("\n".join(row for rows in folded for row in rows).encode())
    assert found is not None
    assert found.text.decode() == MAILED.rstrip()


def test_lines_that_are_long_by_themselves_are_not_joined() -> None:
    line = "nslookup: can't resolve 'fit-master-0': Name does not resolve\nwaiting for master\n"
    assert straight(line.encode() * 4) is None
