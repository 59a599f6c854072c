"""What load_state_dict lists as missing and unexpected -> which side has a wrapper, if that is the difference."""

import io

import pytest

from gpudoctor.explain.explain import explain
from gpudoctor.explain.report import Explanation
from gpudoctor.explain.state_dicts import wrapper

PLAIN = ("fc.weight", "fc.bias")
MODULE = ("module.fc.weight", "module.fc.bias")
COMPILED = ("_orig_mod.fc.weight", "_orig_mod.fc.bias")


@pytest.mark.parametrize(
    ("missing", "unexpected", "prefix", "of_model", "proved"),
    [
        (MODULE, PLAIN, "module.", True, True),
        (PLAIN, MODULE, "module.", False, True),
        (MODULE, (), "module.", True, False),
        ((), MODULE, "module.", False, False),
        (MODULE, ("epoch", "optimizer"), "module.", True, False),
        (COMPILED, PLAIN, "_orig_mod.", True, True),
        (("layers.0._orig_mod.weight",), ("layers.0.weight",), "_orig_mod.", True, True),
    ],
)
def test_the_wrapper_is_the_difference(
    missing: tuple[str, ...], unexpected: tuple[str, ...], prefix: str, of_model: bool, proved: bool
) -> None:
    assert wrapper(missing, unexpected) == (prefix, of_model, proved)


@pytest.mark.parametrize(
    ("missing", "unexpected"),
    [
        (PLAIN, ("classifier.weight",)),
        ((*MODULE, "head.weight"), PLAIN),  # not every name has it: a model with a part of that name
        (MODULE, ("module.head.weight",)),  # both sides have it
        ((), ()),
        ((), ("state_dict", "epoch")),
    ],
)
def test_another_difference_is_no_wrapper(missing: tuple[str, ...], unexpected: tuple[str, ...]) -> None:
    assert wrapper(missing, unexpected) is None


def told(text: str) -> Explanation:
    return explain((), stdin=io.BytesIO(), texts=(text,))


def test_two_models_of_one_log_are_told_apart() -> None:
    """The first is of a wrapper; what the second lists, many lines behind, is not mixed into it."""
    first = 'RuntimeError: Error(s) in loading state_dict for Net:\n\tMissing key(s) in state_dict: "fc.weight". \n'
    second = 'RuntimeError: Error(s) in loading state_dict for Head:\n\tUnexpected key(s) in state_dict: "module.x". \n'
    answer = told(first + "epoch 1 loss 0.5\n" * 9 + second)
    assert "names or shapes differ" in answer.causes[0].summary


def test_ranks_that_say_the_same_are_one_cause() -> None:
    lines = (
        "RuntimeError: Error(s) in loading state_dict for DistributedDataParallel:",
        '\tMissing key(s) in state_dict: "module.fc.weight". ',
        '\tUnexpected key(s) in state_dict: "fc.weight". ',
    )
    answer = told("\n".join(f"[rank{rank}]: {line}" for line in lines for rank in (0, 1)))
    assert [cause.cause for cause in answer.causes] == ["checkpoint-mismatch"]
    assert "saved without the wrapper" in answer.causes[0].summary
