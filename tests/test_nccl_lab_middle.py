"""What happens in the middle of `gpudoctor nccl-test --hosts`: it is named, and no process is left anywhere."""

import contextlib
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from tests.lab.hosts import Host
from tests.lab.nccl_command import COMMAND, findings, three
from tests.lab.sshd import Cluster, SshHost, wait_until

MEASURED = 64 << 20
"""Bytes of the one size that is measured: more than everything that is said before."""


class Running(NamedTuple):
    """The command at the head, its ranks in the middle of an all_reduce."""

    cluster: Cluster
    process: "subprocess.Popen[str]"

    def torchrun(self, host: SshHost) -> int:
        (pid,) = (pid for pid, words in host.processes().items() if "torch.distributed.run" in words)
        return pid

    def rank(self, host: SshHost) -> int:
        torchrun = self.torchrun(host)
        children = Path(f"/proc/{torchrun}/task/{torchrun}/children").read_text().split()
        (pid,) = (int(word) for word in children if b"RANK=" in Path(f"/proc/{word}/environ").read_bytes())
        return pid

    def ssh(self, host: SshHost) -> int:
        """The head's ssh to a host."""
        there = self.cluster.head.processes().items()
        (pid,) = (pid for pid, words in there if words.startswith("ssh ") and f" {host.name} " in words)
        return pid

    def end(self) -> dict[str, Any]:
        """The answer, when the command has ended by itself."""
        output, errors = self.process.communicate(timeout=250)
        assert self.process.returncode in (0, 1, 130), errors
        found: dict[str, Any] = msgspec.json.decode(output)
        return found


@contextlib.contextmanager
def measuring(cluster: Cluster, *options: str) -> Iterator[Running]:
    """As soon as the ranks exchange data; the command goes on for half a minute at least, unless it is stopped."""
    names = ",".join(host.name for host in cluster.hosts)
    size = ("--min-bytes", str(MEASURED), "--max-bytes", str(MEASURED), "--warmup", "1", "--iters", "200")
    words = (*COMMAND, "--hosts", names, "--json", *size, *options)
    process = subprocess.Popen(
        cluster.head.command(*words),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=cluster.environment(),
    )
    try:
        wait_until(lambda: received(cluster.hosts[-1]) > MEASURED or process.poll() is not None, 250)
        assert process.poll() is None, process.communicate()
        yield Running(cluster, process)
    finally:
        process.kill()
        process.communicate()


def received(host: Host) -> int:
    """Bytes that went to a host's first interface."""
    words = ["ip", "-n", host.switch, "-json", "-statistics", "link", "show", host.port(0)]
    done = subprocess.run(words, capture_output=True, check=True, timeout=30)
    count: int = msgspec.json.decode(done.stdout)[0]["stats64"]["tx"]["bytes"]
    return count


class Mishap(NamedTuple):
    """What happens to b in the middle of the test, and what is then found."""

    happens: Callable[[Running], object]
    finds: str
    words: tuple[str, ...]
    outcome: str = "died"


MISHAPS = {
    "a rank is killed": Mishap(lambda test: os.kill(test.rank(test.cluster.b), signal.SIGKILL), "rank-died", ("b",)),
    "a rank is stopped": Mishap(
        lambda test: os.kill(test.rank(test.cluster.b), signal.SIGSTOP), "stopped-rank", ("b",), "stalled"
    ),
    "torchrun is killed": Mishap(
        lambda test: os.kill(test.torchrun(test.cluster.b), signal.SIGKILL), "rank-died", ("b",)
    ),
    "ssh is killed": Mishap(lambda test: os.kill(test.ssh(test.cluster.b), signal.SIGKILL), "node-lost", ("b",)),
    "the host is gone": Mishap(lambda test: test.cluster.b.power_off(), "node-lost", ("b",), "stalled"),
}


@pytest.mark.parametrize("mishap", MISHAPS.values(), ids=MISHAPS)
def test_what_happens_in_the_middle_is_named(mishap: Mishap) -> None:
    with three() as cluster:
        with measuring(cluster, "--timeout", "20") as test:
            mishap.happens(test)
            answered = test.end()
        found = findings(answered)
        assert mishap.finds in found, answered
        assert found[mishap.finds]["nodes"] == ["b"]
        assert all(word in found[mishap.finds]["problem"]["summary"] for word in mishap.words)
        assert (answered["outcome"], answered["exit_status"]) == (mishap.outcome, 1)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=str)
def test_a_signal_to_the_head_ends_everything(number: signal.Signals) -> None:
    with three() as cluster, measuring(cluster) as test:
        test.process.send_signal(number)
        output, errors = test.process.communicate(timeout=250)
        assert test.process.returncode in (128 + number, -number), errors
        assert "Traceback" not in output + errors
        if number == signal.SIGINT:
            assert msgspec.json.decode(output)["outcome"] == "interrupted"


def test_a_head_that_is_killed_leaves_no_rank() -> None:
    with three() as cluster, measuring(cluster) as test:
        test.process.kill()
        test.process.communicate()
        assert cluster.left_over() == {}
