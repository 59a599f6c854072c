"""A class by words that are alike, where nothing else tells one."""

import io
import re

import pytest

from gpudoctor.explain.alike import HEALTHY, SAYS_NOTHING, stems, words
from gpudoctor.explain.explain import explain
from gpudoctor.explain.report import Explanation
from gpudoctor.fault_classes import CLASSES
from tests.corpus import train

LINES = (
    "pod trainer-3 phase Pending in queue gold, partition of nodes with taints, tolerations asked",
    "kubelet scheduler: nodes taint, account qos quota of the queue, job pending",
)


def of(log: str) -> Explanation:
    return explain((), stdin=io.BytesIO(), texts=(log,))


def test_words_are_read_as_they_are_learned() -> None:
    found = stems(["  File /opt/v/lib/python3.11/site-packages/h5py/_hl/files.py, line 3: openFailed Opening 0x7f"])
    assert (found["opening"], found["lib_h"], found["open"], found["failed"], found["site"]) == (1, 1, 1, 1, 0)


def test_the_table_tells_only_classes_that_say_something() -> None:
    kinds = [judged.kind for letter, (judged, _) in words().classes.items() if letter != HEALTHY]
    assert {*kinds} <= {*CLASSES} - SAYS_NOTHING and len(kinds) == len({*kinds}) > 40
    assert all(judged.restart in ("after a fix", "not decided") for judged, _ in words().classes.values())
    assert words().rarity.keys() == words().speaks_for.keys()


def test_it_is_small() -> None:
    assert len(train.FILE.read_bytes()) < 150_000


def test_an_error_that_no_table_knows_has_the_class_of_alike_words() -> None:
    answer = of(
        "Traceback (most recent call last):\n"
        '  File "/work/tune.py", line 4, in <module>\n    main()\n'
        "bob.readers.ReaderFault: sample 81 of the dataset is damaged: image truncated after 411 bytes\n"
    )
    assert answer.exit_status == 1 and answer.kind == "data" == answer.causes[0].kind
    assert answer.causes[0].cause == "program-error"


def test_lines_of_which_nothing_is_known_may_have_a_class_and_accuse_nobody() -> None:
    told = words().most_alike(LINES, failed=False)
    assert told is not None and told.kind == "scheduler"
    answer = of("\n".join((*LINES, "")))
    assert (answer.exit_status, answer.causes, answer.unknown, answer.restart) == (3, (), None, "not decided")
    assert answer.kind == "scheduler"


@pytest.mark.parametrize("log", ["", "\n\n", "0 1 2 3\n", "hello world\n", "loaded 4 files\nepoch 1 done\n"])
def test_words_of_healthy_logs_have_no_class(log: str) -> None:
    assert of(log).kind is None


@pytest.mark.thorough
def test_the_table_is_what_the_labels_give() -> None:
    """Nearly, of every eighth class: it is made anew now and then, not with each new sample (`python -m tests.corpus
    train`)."""
    shipped, learned = _speaks(train.FILE.read_text(encoding="utf-8")), _speaks(train.table(every=8))
    classes = {letter for letter, _ in learned}
    shipped = {(letter, word) for letter, word in shipped if letter in classes}
    assert len(shipped & learned) > 0.85 * len(shipped | learned)


def _speaks(table: str) -> set[tuple[str, str]]:
    """Which class which word speaks for, or against."""
    rows = (row.split(" ") for row in table.partition("\n\n")[2].splitlines())
    return {(letter, word) for word, _, weights in rows for letter in re.findall(r"[a-zA-Z.]", weights)}
