"""Two numbers that a message holds against each other; the fix of what is not decided."""

import io

import pytest

from gpudoctor.explain.explain import explain
from gpudoctor.explain.requirements import required


@pytest.mark.parametrize(
    ("clause", "shown"),
    [
        ("num_heads (14) must be a multiple of tensor_parallel_size (4).", "set tensor_parallel_size to 2 or 7"),
        ("width must be divisible by heads (got `width`: 770 and `heads`: 12).", "set width to 768 or 780"),
        ("The global batch (2 * 3) must be divisible by the number of answers (4).", "set global batch to 4 or 8"),
        ("world size (12) is not divisible by model_size (8)", "start 8 or 16 processes"),
        ("world size 3 != dp (2) * tp (2)", "start 4 processes"),
        ("batch_size (48) must equal micro_batch (4) * accumulation (2) * world_size (8)", "set batch_size to 64"),
        ("max_len (4096) is larger than the limit of 2048", "lower max_len to 2048 or less"),
        ("max_tokens (2048) is smaller than max_len (8192)", "raise max_tokens to 8192 or more"),
        ("vocab must be divisible by 8, but got vocab=50257 and tp=8", "set vocab to 50256 or 50264"),
        ("num_beams must be at least 2 when using groups, got 1", "Set num_beams to 2 or more (it is 1)"),
        ("top_p should be in (0, 1], got 1.5", "Set top_p to a value in (0, 1] (it is 1.5)"),
        ("dropout probability has to be between 0 and 1, but got 10", "to a value between 0 and 1 (it is 10)"),
        ("temperature must be strictly positive", "Set temperature to more than 0"),
        ("Requested 4 GPUs but only 2 are available", "Ask for 2 GPUs or fewer, or give the job 4"),
        ("pp_size=3 does not divide num_layers=32", "set pp_size to 2 or 4"),
        ("vocab size 32000 is less than the largest token id 32003", "resize_token_embeddings(32004)"),
    ],
)
def test_what_either_would_have_to_be(clause: str, shown: str) -> None:
    assert shown in required(clause)


@pytest.mark.parametrize(
    "clause",
    [
        "",
        "layers should be divisible by stages",
        "heads (16) must be a multiple of parts (4)",
        "The size of tensor a (200) must match the size of tensor b (5)",
        "index 7 is larger than 5",
        "steps (10) is larger than warmup (20)",
        "Requested 2 GPUs, and 4 are available",
        "the file must be in the folder of the project",
    ],
)
def test_what_holds_or_is_of_no_two_numbers(clause: str) -> None:
    assert required(clause) == ""


def test_what_a_log_ends_with_has_its_fix_though_what_came_before_is_not_known() -> None:
    lines = "flux: error: the capacitor failed\nValueError: heads (14) must be a multiple of parts (4).\n"
    told = explain((), stdin=io.BytesIO(), texts=(lines,))
    assert told.causes[0].confidence < 0.5
    assert "set parts to 2 or 7" in told.advice


def test_a_candidate_that_only_followed_hands_over_no_fix() -> None:
    line = "gpu-1:41:42 [1] include/socket.h:361 NCCL WARN Call to connect timeout : Connection refused\n"
    told = explain((), stdin=io.BytesIO(), texts=(line,))
    assert not told.causes or told.causes[0].confidence < 0.5
    assert told.advice == ""


def test_what_a_message_of_memory_names_goes_before_what_helps_all() -> None:
    line = "ValueError: Free memory on device (5/79 GiB) is less than wanted. Decrease GPU memory utilization.\n"
    told = explain((), stdin=io.BytesIO(), texts=(f"Traceback (most recent call last):\n  File 'a.py'\n{line}",))
    assert told.causes[0].kind == "gpu-memory"
    assert told.causes[0].fix.text.startswith("Do what the message itself says: Decrease GPU memory utilization.")
