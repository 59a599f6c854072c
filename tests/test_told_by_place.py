"""What an exception tells by where it was raised: packages whose releases do not fit, a source line that says what."""

import pytest

from gpudoctor.explain.told_by_place import ENTRY_OF_ANY, by_code, caller, of_call

TRL = "/opt/conda/lib/python3.11/site-packages/trl/trainer/grpo_trainer.py"
TORCH = "/opt/conda/lib/python3.11/site-packages/torch/nn/modules/module.py"
REFUSED = "Trainer.__init__() got an unexpected keyword argument 'processing_class'"


@pytest.mark.parametrize(
    ("name", "message", "file", "package"),
    [
        ("TypeError", REFUSED, TRL, "trl"),
        ("TypeError", REFUSED, "/home/a/train.py", ""),
        ("TypeError", "forward() got an unexpected keyword argument 'mask'", TORCH, ""),
        ("TypeError", "Net.forward() got an unexpected keyword argument 'mask'", TORCH, ""),
        ("AttributeError", "'GRPOTrainer' object has no attribute 'steps_so_far'", TRL, "trl"),
        ("AttributeError", "'NoneType' object has no attribute 'shape'", TRL, ""),
        ("AttributeError", "_old_init", TRL, "trl"),
        ("ValueError", REFUSED, TRL, ""),
    ],
)
def test_package_that_calls_what_is_not_there(name: str, message: str, file: str, package: str) -> None:
    assert caller(name, message, file) == package


@pytest.mark.parametrize(
    ("name", "message", "code", "variant"),
    [
        ("AssertionError", "", "assert self.sep not in line", "assertion-line"),
        ("AssertionError", "sizes differ", "assert a == b", ""),
        ("TypeError", "unsupported operand type(s) for +: 'NoneType' and 'str'", 'home + "/bin"', "nothing-there"),
        ("TypeError", "unsupported operand type(s) for +: 'int' and 'str'", "a + b", ""),
        ("AttributeError", "'NoneType' object has no attribute 'size'", "x = found.size", "nothing-there"),
        ("AttributeError", "'NoneType' object has no attribute 'size'", "", ""),
        (
            "TypeError",
            "unsupported operand type(s) for +: 'NoneType' and 'str'",
            'cuda_dir + "/bin/nvcc"',
            "no-toolkit",
        ),
    ],
)
def test_source_line_is_shown(name: str, message: str, code: str, variant: str) -> None:
    shown = by_code(name, message, code)
    assert (shown[0] if shown else "") == variant
    assert not shown or shown[1] == ({} if variant == "no-toolkit" else {"code": code})


@pytest.mark.parametrize(
    ("name", "message", "file", "variant", "values"),
    [
        (
            "TypeError",
            REFUSED,
            "/home/a/train.py",
            "argument-newer",
            {"package": "transformers", "function": "Trainer", "name": "processing_class"},
        ),
        (
            "TypeError",
            "set() missing 1 required positional argument: 'x'",
            "/a/b.py",
            "argument-missing",
            {"names": "'x'"},
        ),
        ("TypeError", "forward() missing 1 required positional argument: 'x'", TORCH, "", {}),
        ("KeyError", "'eval_every'", "/a/b.py", "missing-entry", {"key": "eval_every", "of": ENTRY_OF_ANY}),
        ("KeyError", "'no such key: eval_every'", "/a/b.py", "", {}),
        ("ValueError", "'eval_every'", "/a/b.py", "", {}),
    ],
)
def test_what_a_call_or_a_mapping_lacks(
    name: str, message: str, file: str, variant: str, values: dict[str, str]
) -> None:
    assert (of_call(name, message, file) or ("", {})) == (variant, values)
