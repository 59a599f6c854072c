"""Which exception of a chain ended a program, and of what an exception speaks by the line that raised it."""

import io

import pytest

from gpudoctor.explain.explain import explain
from gpudoctor.explain.report import LogCause

PACKAGES = "/opt/v/lib/python3.11/site-packages"
DURING = "\nDuring handling of the above exception, another exception occurred:\n\n"


def raised(error: str, *frames: tuple[str, str, str]) -> str:
    lines = [f'  File "{file}", line {at}, in {name}\n    {code}' for at, (file, name, code) in enumerate(frames, 7)]
    return "\n".join(["Traceback (most recent call last):", *lines, error, ""])


def cause(text: str) -> LogCause:
    (first, *_) = explain((), stdin=io.BytesIO(), texts=(text,)).causes
    return first


def test_what_is_raised_again_came_before_what_was_tried_meanwhile() -> None:
    reader = f"{PACKAGES}/datasets/packaged_modules/json/json.py"
    tried = raised(
        "json.decoder.JSONDecodeError: Extra data: line 2 column 1 (char 90)", (reader, "_tables", "json.load(f)")
    )
    again = raised(
        "pyarrow.lib.ArrowInvalid: JSON parse error: Column(/score) changed from number to string in row 4",
        ("/srv/fit.py", "<module>", "ds = load_dataset('json')"),
        (reader, "_tables", "raise e"),
        (reader, "_tables", "table = paj.read_json("),
    )
    found = cause(tried + DURING + again)
    assert "Column(/score)" in found.summary
    assert "Extra data" not in found.summary


def test_an_attribute_that_is_asked_of_one_object_after_the_other_is_missing_in_the_last() -> None:
    outer = raised("AttributeError: 'Wrapped' object has no attribute 'quantizer'", (f"{PACKAGES}/peft/m.py", "g", "x"))
    inner = raised("AttributeError: 'Net' object has no attribute 'quantizer'", ("/srv/fit.py", "<module>", "m.x"))
    assert "'Net'" in cause(outer + DURING + inner).summary


@pytest.mark.parametrize(
    ("file", "says"), [("/srv/coco.py", "`self.labels[name]`"), (f"{PACKAGES}/pandas/core/base.py", "pandas")]
)
def test_a_number_that_is_no_key_is_a_row_of_pandas_only_where_pandas_was_asked(file: str, says: str) -> None:
    assert says in cause(raised("KeyError: 7", (file, "__getitem__", "self.labels[name]"))).fix.text


def test_a_package_that_calls_what_is_gone_is_named_and_not_the_users_line() -> None:
    found = cause(
        raised(
            "TypeError: Trainer.__init__() got an unexpected keyword argument 'tokenizer'",
            ("/srv/fit.py", "<module>", "t = SFTTrainer("),
            (f"{PACKAGES}/trl/trainer/sft_trainer.py", "__init__", "super().__init__("),
        )
    )
    assert "trl, which calls it," in found.fix.text
    assert "/srv/fit.py" not in found.fix.text


def test_a_name_that_a_module_lacks_is_told_with_that_modules_package() -> None:
    frame = (f"{PACKAGES}/transformers/utils/bitsandbytes.py", "replace", "bnb.nn.Linear4bit(")
    found = cause(raised("AttributeError: module 'bitsandbytes.nn' has no attribute 'Linear4bit'", frame))
    assert "The installed bitsandbytes has no Linear4bit: what uses it (transformers)" in found.fix.text


def test_what_a_package_refuses_is_no_download_because_it_downloads_too() -> None:
    frame = (f"{PACKAGES}/huggingface_hub/fs.py", "resolve", "raise ValueError(")
    found = cause(raised("ValueError: Cannot specify both ignore_times and ignore_sizes.", frame))
    assert found.kind == "argument"
    assert "ignore_times" in found.fix.text


@pytest.mark.parametrize(
    "error", ["`rank` must be a positive integer; got 0.", "`a` cannot be used when `b` is a str."]
)
def test_a_value_that_is_refused_is_not_told_as_a_release_that_is_too_old(error: str) -> None:
    frame = (f"{PACKAGES}/peft/tuners/lora/config.py", "__post_init__", "raise ValueError(")
    assert "newer" not in cause(raised(f"ValueError: {error}", frame)).fix.text


def test_a_function_that_a_library_lacks_is_not_one_of_another_library() -> None:
    where = f"{PACKAGES}/bitsandbytes/libbitsandbytes_cpu.so"
    found = cause(f"AttributeError: {where}: undefined symbol: cquantize_blockwise_fp16_nf4\n")
    assert "LD_LIBRARY_PATH" not in found.fix.text
    assert "libbitsandbytes_cpu.so" in found.summary
