"""The taxonomy: its names, and the rules of messages for its texts."""

import re
import shlex
import subprocess
import sys
from typing import get_args

import pytest

from gpudoctor.cause import Cause, Stage
from gpudoctor.causes import CAUSES

NAMES = [
    "local-rank-preset",
    "launcher-world-mismatch",
    "master-addr-loopback",
    "master-unreachable",
    "master-port-in-use",
    "rdzv-host-mismatch",
    "double-init",
    "clock-skew",
    "version-mismatch",
    "wrong-nic",
    "firewall-ephemeral-ports",
    "host-identity-collision",
    "duplicate-gpu",
    "device-not-set",
    "shm-too-small",
    "memlock-limit",
    "fabric-manager",
    "p2p-acs-iommu",
    "gpu-driver-p2p-bug",
    "gdr-broken",
    "roce-gid-index",
    "mtu-mismatch",
    "ib-link-down",
    "rail-cross-nic",
    "launch-blocking-env",
    "cuda-lazy-loading",
    "nccl-bug",
    "uneven-inputs",
    "rank0-only-collective",
    "rank-divergent-decision",
    "collective-order-mismatch",
    "shape-mismatch",
    "rank-dependent-graph",
    "unused-parameters",
    "sampler-seed-mismatch",
    "rank-died",
    "slow-rank-timeout",
    "checkpoint-race",
    "object-collective",
    "storage-stall",
    "dataloader-fork-deadlock",
    "gil-deadlock",
    "concurrent-communicators",
    "p2p-order",
    "xid-gpu-lost",
    "straggler",
    "stopped-rank",
    "debug-wrapper-artifact",
    "teardown-deadlock",
    "store-host-exit",
]
"""A contract with whoever reads the JSON: never renamed, never reused."""


def test_the_names_of_the_research_are_all_there() -> None:
    assert set(NAMES) <= set(CAUSES)
    assert all(cause.id == name for name, cause in CAUSES.items())


@pytest.mark.parametrize("cause", CAUSES.values(), ids=lambda cause: cause.id)
def test_texts_keep_the_rules_of_messages(cause: Cause) -> None:
    assert cause.title and not cause.title.endswith(".") and "\n" not in cause.title and len(cause.title) <= 90
    for text in (cause.meaning, cause.fix.text, cause.confirm):
        assert text.endswith("."), text
    for text in (cause.title, cause.meaning, cause.fix.text, cause.confirm):
        assert "!" not in text and "  " not in text
        assert not re.search(r"\b(simply|just|please|ensure)\b", text, re.IGNORECASE), text
    assert cause.source and not cause.source.endswith(".")
    assert cause.stages and set(cause.stages) <= set(get_args(Stage))


@pytest.mark.parametrize("cause", CAUSES.values(), ids=lambda cause: cause.id)
def test_commands_can_be_pasted_as_they_stand(cause: Cause) -> None:
    for command in cause.fix.commands:
        assert not re.search(r"\.\.\.|<|>|\b(PID|HOST|PORT|ADDRESS)\b", command), command
        parsed = subprocess.run(["bash", "-n", "-c", command], capture_output=True, text=True, check=False, timeout=60)
        assert parsed.returncode == 0, parsed.stderr


def test_commands_of_ours_exist() -> None:
    ours = {command for cause in CAUSES.values() for command in cause.fix.commands if command.startswith("gpudoctor ")}
    assert ours
    for command in sorted({shlex.split(command)[1] for command in ours}):
        done = subprocess.run(
            [sys.executable, "-m", "gpudoctor", command, "--help"], capture_output=True, check=False, timeout=120
        )
        assert done.returncode == 0, command
