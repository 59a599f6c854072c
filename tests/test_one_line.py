"""What people type into a search, asked of `explain`: tests/corpus/one_line.txt."""

import io

import pytest

from gpudoctor.explain.explain import explain
from tests.corpus.one_line import OneLine, one_lines


@pytest.mark.thorough
def test_most_are_classed_rightly_few_wrongly_and_what_tells_no_fault_accuses_nobody() -> None:
    lines = list(one_lines())
    assert not [line for line in lines if not line.classes and line.answered]
    # ibv_reg_mr without memory is told as locked memory (class limits), where its label has rdma.
    assert sum(line.wrong for line in lines) <= 8
    for half, least in (("tune", 66), ("keep", 62)):
        of_half: list[OneLine] = [line for line in lines if line.half == half]
        assert sum(line.right for line in of_half) >= least


@pytest.mark.parametrize(
    ("text", "id"),
    [
        ("CUDA out of memory", "gpu-out-of-memory"),
        ("RuntimeError: CUDA out of memory", "gpu-out-of-memory"),
        ("No space left on device", "disk-full"),
        ("RuntimeError: unable to write to file </torch_7_1_0>: No space left on device (28)", "shm-too-small"),
        ("ModuleNotFoundError: No module named 'deepspeed'", "library-missing"),
        ("ValueError: batch must be positive", "program-error"),
    ],
)
def test_an_error_that_is_one_trouble_has_its_id_however_it_is_worded(text: str, id: str) -> None:
    (cause,) = explain((), stdin=io.BytesIO(), texts=(text,)).causes
    assert cause.cause == id
    assert "other ranks" not in cause.fix.text


@pytest.mark.parametrize(
    ("text", "today"),
    [
        ("TypeError: Trainer.__init__() got an unexpected keyword argument 'gpus'", 'accelerator="gpu", devices='),
        ("TypeError: Trainer.__init__() got an unexpected keyword argument 'distributed_backend'", "strategy="),
        ("ValueError: You selected an invalid strategy name: `strategy='fairscale'`. It must be either", '"fsdp"'),
    ],
)
@pytest.mark.parametrize("head", ["", 'Traceback (most recent call last):\n  File "t.py", line 3, in <module>\n'])
def test_what_lightning_no_longer_knows_is_told_as_lint_tells_it(head: str, text: str, today: str) -> None:
    causes = explain((), stdin=io.BytesIO(), texts=(f"{head}{text}\n",)).causes
    assert today in causes[0].fix.text
