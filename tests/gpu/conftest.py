"""The suite for machines with an NVIDIA GPU; elsewhere every test in it is skipped with the reason."""

import os

import pytest

from gpudoctor.snapshot import Snapshot
from tests.driver_answers import examined


@pytest.fixture(scope="session")
def environment() -> dict[str, str]:
    """This process's environment, in which every GPU is visible."""
    return {name: value for name, value in os.environ.items() if name != "CUDA_VISIBLE_DEVICES"}


@pytest.fixture(scope="session")
def machine(environment: dict[str, str]) -> Snapshot:
    """The machine as NVML and libcuda describe it."""
    found = examined(environment)
    gpus, answer = found.nvidia.gpus, found.cuda.all
    if not gpus.value_or(()):
        pytest.skip(f"no NVIDIA GPU: {gpus.reason or 'NVML counts none'}")
    if not answer.is_read or answer.value.error:
        pytest.skip(f"no CUDA driver that works: {answer.reason or answer.value.error_name}")
    return found
