"""What `gpudoctor env` prints, tried on the real NCCL: with it NCCL takes what we say, without it what we warn of.

As in test_nccl_oracle.py NCCL comes from the package index, and the machines are namespaces, so they need root.
"""

import os

import pytest

from tests.lab.nccl import wheels
from tests.lab.nccl.suggested import JOINED, MACHINES, joined, try_out
from tests.lab.requirements import require

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def release() -> str:
    require(os.geteuid() == 0, "no permission to make namespaces: be root")
    wheels.nccl(wheels.NEWEST_NCCL)
    return wheels.NEWEST_NCCL


@pytest.mark.parametrize("name", MACHINES)
def test_nccl_does_what_env_says(name: str, release: str) -> None:
    machine, tried = MACHINES[name], try_out(MACHINES[name], release)
    assert tried.suggested == machine.suggested, tried.unjudged
    assert tried.by_itself == machine.by_itself
    assert tried.then == machine.then


@pytest.mark.parametrize("name", [name for name, machine in JOINED.items() if machine.release == wheels.NEWEST_NCCL])
def test_nccl_joins_gpus_as_env_says(name: str, release: str) -> None:
    machine = JOINED[name]
    assert joined(machine) == (machine.suggested, machine.without, machine.then)
