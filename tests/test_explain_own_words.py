"""What a message itself tells of its fix, by the forms in which frameworks refuse."""

import io

import pytest

from gpudoctor.explain.explain import explain
from gpudoctor.explain.own_words import of_own_words, to_install
from gpudoctor.explain.report import Explanation
from gpudoctor.fault_classes import Class


@pytest.mark.parametrize(
    ("kind", "message", "variant", "shown"),
    [
        ("config", "Invalid mode: fast. Must be one of ['slow', 'safe'].", "allowed", "['slow', 'safe']"),
        ("argument", "`order` should be either 'row' or 'column', got 'depth'", "allowed", "'row' or 'column'"),
        ("config", "precision must be in [0.0, 1.0]", "allowed", "[0.0, 1.0]"),
        ("config", "Cannot use --warm together with --cold-start.", "not-together", "--cold-start"),
        ("config", "`offload=True` requires `shard_states=True`.", "wanted", "shard_states=True"),
        ("config", "If resume is True, state_file must be provided.", "wanted", "state_file"),
        ("config", "hidden size must be divisible by heads", "form", "Change hidden size, or heads"),
        ("data", "Please pass `features` or one example.", "advised", "Please pass `features`"),
        ("file-missing", "[Errno 2] No such file or directory: '/data/a.json'", "path", "/data/a.json"),
        ("file-missing", "No such file or directory: 'conf/a.json'", "path", "starts at the folder"),
    ],
)
def test_what_a_message_tells(kind: Class, message: str, variant: str, shown: str) -> None:
    told = of_own_words(kind, message)
    assert told is not None
    assert told[0] == variant
    assert any(shown in value for value in told[1].values()), told[1]


@pytest.mark.parametrize("message", ["", "boom", "[Errno 5] Input/output error"])
def test_a_message_of_another_class_is_left_to_its_class(message: str) -> None:
    assert of_own_words("storage", message) is None


@pytest.mark.parametrize(
    ("message", "package"),
    [
        ("No module named 'sentencepiece'", "sentencepiece"),
        ("Please install vLLM with `pip install trl[vllm]` to use it.", "trl[vllm]"),
        ("Using `wrap` requires transformer_engine to be installed.", "transformer_engine"),
        ("The `nvidia-ml-py` package must be available.", "nvidia-ml-py"),
        ("cannot open shared object file", ""),
        ("Please install it from the page of the project", ""),
    ],
)
def test_what_is_to_be_installed(message: str, package: str) -> None:
    assert to_install(message) == package


def answer(text: str) -> Explanation:
    return explain((), stdin=io.BytesIO(), texts=(text,))


def test_what_is_likely_only_is_not_decided_behind_trouble_that_nobody_knows() -> None:
    line = "gx8: Timeout, server gx8 not responding.\n"
    assert answer(line).causes[0].confidence > 0.5
    doubted = answer(f"frob: the widget table is corrupt, aborting\n{line}")
    assert doubted.causes[0].confidence < 0.5
    assert doubted.unknown is not None and "before it" in doubted.unknown


def test_a_variable_that_is_not_set_is_a_setting() -> None:
    raised = '  File "/opt/lib/python3.11/os.py", line 680, in __getitem__\n    raise KeyError(key) from None\n'
    header = 'Traceback (most recent call last):\n  File "/w/a.py", line 2, in <module>\n    os.environ["SITE_ROOT"]\n'
    cause = answer(f"{header}{raised}KeyError: 'SITE_ROOT'\n").causes[0]
    assert cause.kind == "config"
    assert "SITE_ROOT is not set" in cause.fix.text


def test_what_was_not_there_is_the_cause_of_a_none() -> None:
    header = 'Traceback (most recent call last):\n  File "/w/a.py", line 2, in <module>\n    table.sizes\n'
    error = "AttributeError: 'NoneType' object has no attribute 'sizes'\n"
    cause = answer(f"Dataset does not exist: /data/part-03\n{header}{error}").causes[0]
    assert cause.kind == "file-missing"
    assert "/data/part-03" in cause.summary


def test_what_nobody_could_catch_does_not_spoil_a_good_end() -> None:
    ignored = (
        'Exception ignored in: <function A.__del__>\nTraceback (most recent call last):\n  File "a.py", line 1, in b\n'
    )
    assert answer(f"step 1 loss 2\nstep 2 loss 1.5\nTraining finished\n{ignored}TypeError: 'NoneType' object\n").well


def test_no_memory_for_a_queue_of_a_network_card_is_not_the_machines() -> None:
    told = answer("[1.2] [n5:31:0] ib_iface.c:1013 UCX  ERROR ibv_create_cq(cqe=4096) failed: Cannot allocate memory\n")
    assert [cause.cause for cause in told.causes] == ["memlock-limit"], "locked memory ran out, not memory"
    assert told.kind == "limits"
