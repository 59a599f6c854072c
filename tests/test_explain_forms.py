"""What the form of a refusing sentence asks for, and forms that say nothing of the kind."""

import pytest

from gpudoctor.explain.forms import of_form


@pytest.mark.parametrize(
    ("clause", "told"),
    [
        ("flash_attn was requested, but nvcc was not found", "nvcc is of the CUDA toolkit"),
        ("Ninja is required to load C++ extensions", ""),  # pip knows what that is
        ("XGBoost version not compiled with GPU support", "built without GPU"),
        ("Distributed package doesn't have NCCL built in", "built without NCCL"),
        ("zero stage 2 requires an optimizer", "Give zero stage 2 what it requires, an optimizer"),
        ("FlashAttention only supports Ampere GPUs or newer", "for Ampere GPUs or newer alone"),
        ("`x` can only be used when parameters are sharded", "use it only when parameters are sharded"),
        ("Expected a 'cuda' device type for generator but found 'cpu'", "to be a 'cuda' device type for generator"),
        ("num_layers must be divisible by pipeline_size", "Change num_layers, or pipeline_size"),
        ("'street' is already registered", "'street' is given twice"),
        ("No valid checkpoint found in output directory (out)", "no valid checkpoint in output directory"),
        ("element 0 of tensors does not require grad and does not have a grad_fn", ""),
        ("the loss was 3 and is 4", ""),
        ("this requires a GPU that nobody has", ""),
    ],
)
def test_the_form_of_a_sentence(clause: str, told: str) -> None:
    assert (told in of_form(clause)) if told else not of_form(clause)
