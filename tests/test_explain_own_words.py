"""What a message itself tells of its fix, by the forms in which frameworks refuse."""

import pytest

from gpudoctor.explain.own_words import of_own_words, to_install
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
        ("config", "hidden size must be divisible by heads", "refused", "hidden size must be divisible by heads"),
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
