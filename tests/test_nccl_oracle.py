"""What we say that NCCL takes, against the real NCCL of one release; of all: `python -m tests.lab.nccl`.

NCCL comes from the package index into a cache (tests/lab/nccl/wheels.py): without it these tests skip, and where the
lab is required it is downloaded. The machines are namespaces, so they need root.
"""

import os
from dataclasses import replace

import pytest

from tests.lab.nccl import wheels
from tests.lab.nccl.cases import all_cases
from tests.lab.nccl.oracle import ask
from tests.lab.requirements import require

pytestmark = pytest.mark.timeout(600)
RELEASE = wheels.NEWEST_NCCL
CASES = {
    case.name: case
    for case in all_cases()
    if case.name.startswith("file:")
    or case.name
    in (
        "interfaces: two",
        "interfaces: containers",
        "interfaces: mixed",
        "interfaces: down",
        "interfaces: NCCL_COMM_ID",
        "files: homes",
        "hcas: rails and storage",
        "hcas: one closed",
        "hcas: two ports",
        "hcas: with a RoCE port",
        "hcas: none",
        "gids: IPv6 only",
        "paths: PCIe switches",
        "paths: root ports",
        "paths: flat in a VM",
        "transports: two of one root",
        "rails: GB200",
        "errors: verbs",
        "errors: small /dev/shm",
    )
}


@pytest.fixture(scope="module")
def release() -> str:
    require(os.geteuid() == 0, "no permission to make namespaces: be root")
    wheels.nccl(RELEASE)
    return RELEASE


@pytest.mark.parametrize("name", list(CASES))
def test_nccl_does_as_we_say(name: str, release: str) -> None:
    outcomes = list(ask(replace(CASES[name], releases=[release])))
    assert sum(outcome.compared for outcome in outcomes) >= len(outcomes)
    wrong = [outcome for outcome in outcomes if not outcome.agrees]
    assert not wrong, "\n".join(f"{each.settings}: {each.differences} {each.said}" for each in wrong)
