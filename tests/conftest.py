"""Fixtures for all tests."""

import contextlib
from collections.abc import Callable, Iterator

import pytest

from tests.lab.nvidia import Machine, fake_nvidia


@pytest.fixture
def environment_on() -> Iterator[Callable[..., dict[str, str]]]:
    """`environment_on(machine, CUDA_VISIBLE_DEVICES="0")`: the environment of a process on a fake NVIDIA machine."""
    with contextlib.ExitStack() as stack:

        def environment(machine: Machine, **variables: str) -> dict[str, str]:
            return stack.enter_context(fake_nvidia(machine, **variables))

        yield environment
