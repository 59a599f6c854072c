"""`gpudoctor nccl-test --hosts` as a user types it at the first of the lab's hosts, and its answer."""

import contextlib
import sys
from collections.abc import Iterator
from typing import Any

import msgspec

from tests.lab.sshd import Cluster, ssh_hosts

COMMAND = (sys.executable, "-m", "gpudoctor", "nccl-test", "--backend", "gloo")
SHORT = ("--max-bytes", "1K", "--factor", "8", "--warmup", "1", "--iters", "2")


@contextlib.contextmanager
def three(truly: bool = False) -> Iterator[Cluster]:
    """Three hosts, on which nothing may be left in the end."""
    with ssh_hosts("a", "b", "c", truly=truly) as cluster:
        yield cluster
        for host in cluster.hosts:  # what a test stopped itself
            host.thaw()
        left = cluster.left_over()
        assert not left, left


def answer(cluster: Cluster, *options: str, timeout: float = 280, **variables: str) -> dict[str, Any]:
    """What the command says as JSON, which is all that it may print."""
    names = ",".join(host.name for host in cluster.hosts)
    words = (*COMMAND, "--hosts", names, "--json", *SHORT, *options)
    done = cluster.head.run(*words, environment=cluster.environment(**variables), timeout=timeout)
    assert done.returncode in (0, 1), done.stderr
    found: dict[str, Any] = msgspec.json.decode(done.stdout)
    assert done.returncode == found["exit_status"]
    return found


def findings(answered: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """By id."""
    return {finding["id"]: finding for finding in answered["problems"]}
