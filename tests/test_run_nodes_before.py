"""`gpudoctor run` on several nodes: before the start the nodes are examined and the ways between them tried."""

import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from gpudoctor.run.meeting import told_rendezvous
from tests.lab import traffic
from tests.lab.hosts import Host, hosts
from tests.lab.sshd import user_environment

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="run attends commands on Linux"),
    pytest.mark.timeout(600),  # waits for most of a minute
]
PATIENCE = 120.0
STAND_IN = textwrap.dedent(
    """
    import os, sys, time
    print("it has started", flush=True)
    time.sleep(float(os.environ["LASTS"]))
    """
)
"""Of a torchrun: the line alone tells how many nodes there are, and where their ranks meet."""


@pytest.fixture
def two() -> Iterator[tuple[Host, ...]]:
    with hosts("n1", "n2", nics=2) as machines:
        yield machines


class Part:
    """Of a job, one node's."""

    def __init__(
        self, machine: Host, folder: Path, options: tuple[str, ...], variables: Mapping[str, str], nodes: int = 2
    ) -> None:
        script = folder / "start.py"
        script.write_text(STAND_IN)
        ours = (sys.executable, "-m", "gpudoctor", "run", *options, "--")
        line = ("python3", str(script), f"--nnodes={nodes}", "--master-addr=10.0.0.1", "--master-port=29511")
        environment = {
            **user_environment(),
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "XDG_STATE_HOME": str(folder / machine.name),
            "GLOO_SOCKET_IFNAME": "eth0",
            "GPUDOCTOR_TOKEN": "of this test",
            "LASTS": "8",
            **variables,
        }
        self.began = time.monotonic()
        self._said = folder / f"said-{machine.name}"
        with self._said.open("wb") as said:
            self.process = subprocess.Popen(
                machine.command("unshare", "--pid", "--fork", "--kill-child", "--mount-proc", *ours, *line),
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                start_new_session=True,
            )

    @property
    def said(self) -> str:
        return self._said.read_text(errors="replace")

    def waits_for(self, words: str) -> float:
        """Seconds until it is said."""
        while words not in self.said and time.monotonic() < self.began + PATIENCE:
            time.sleep(0.05)
        assert words in self.said, self.said
        return time.monotonic() - self.began

    def end(self) -> None:
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()


def job(
    machines: tuple[Host, ...],
    folder: Path,
    *options: str,
    later: float = 0.0,
    of_second: Mapping[str, str] | None = None,
    **variables: str,
) -> tuple[int, int, str, str]:
    """Both exit statuses, and what both said. `later`: how much later the second is started."""
    parts = [Part(machines[0], folder, options, variables)]
    try:
        time.sleep(later)
        parts.append(Part(machines[1], folder, options, {**variables, **(of_second or {})}))
        statuses = [part.process.wait(PATIENCE) for part in parts]
    finally:
        for part in parts:
            part.end()
    return statuses[0], statuses[1], parts[0].said, parts[1].said


def test_where_the_ranks_meet() -> None:
    assert told_rendezvous(("torchrun", "--rdzv-endpoint=n1:29400", "t.py"), {}) == ("n1", 29400)
    assert told_rendezvous(("torchrun", "--master_addr", "n1", "--master_port", "1234", "t.py"), {}) == ("n1", 1234)
    assert told_rendezvous(("accelerate", "launch", "--main_process_ip=::1", "t.py"), {}) == ("::1", 0)
    assert told_rendezvous(("python", "t.py"), {"MASTER_ADDR": "n1", "MASTER_PORT": "29500"}) == ("n1", 29500)
    assert told_rendezvous(("python", "t.py"), {}) == ("", 0)


def test_healthy_nodes_start_and_nothing_is_said(two: tuple[Host, ...], tmp_path: Path) -> None:
    first, second, said, other = job(two, tmp_path)
    assert (first, second) == (0, 0)
    assert "before the start" not in said + other
    assert "ended well" in said and "ended well" in other


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        ("port of the ranks", r"error n2 cannot connect to the rendezvous port 29511 of n1.*\[master-unreachable\]"),
        ("ports of n2", r"error n1 cannot connect to n2, while n2 reaches n1.*\[ports-blocked-between-nodes\]"),
        ("interface", r"error .*eth7.*\[socket-interface-missing\]"),
        ("large packets", r"error .*\[large-packets-lost\]"),
        ("torch", r"error n2 has no torch in the training interpreter .*\[torch-missing\]"),
    ],
)
def test_a_fault_of_one_node_is_named_before_the_start(
    two: tuple[Host, ...], tmp_path: Path, fault: str, expected: str
) -> None:
    of_second = {}
    if fault == "port of the ranks":
        traffic.drop(two[0], 29511)
    elif fault == "ports of n2":
        two[1].filter('iif != "lo" tcp dport 20000-65535 ct state new drop')
    elif fault == "interface":
        of_second["GLOO_SOCKET_IFNAME"] = "eth7"
    elif fault == "large packets":
        traffic.switch_mtu(two[1], 1400)
    else:
        bare = tmp_path / "bare"
        subprocess.run(["/usr/bin/env", sys.executable, "-m", "venv", "--without-pip", str(bare)], check=True)
        of_second["PATH"] = f"{bare}/bin:{os.environ['PATH']}"
    first, second, said, other = job(
        two, tmp_path, of_second=of_second, LASTS="20" if fault == "large packets" else "8"
    )
    assert (first, second) == (0, 0), said + other
    assert re.search(f"(?m)^gpudoctor: before the start: {expected}", said), said
    assert said.count("before the start: error") == 1, said
    assert "before the start: the node that keeps the report has found 1 error" in other, other


def test_an_error_starts_it_nowhere_where_that_is_wanted(two: tuple[Host, ...], tmp_path: Path) -> None:
    first, second, said, other = job(two, tmp_path, "--stop-on-error", of_second={"GLOO_SOCKET_IFNAME": "eth7"})
    assert (first, second) == (125, 125), said + other
    assert "it has started" not in said + other
    assert "not started: it has an error (--stop-on-error)" in said and "not started: it has" in other


def test_a_node_that_comes_late_is_not_waited_for(two: tuple[Host, ...], tmp_path: Path) -> None:
    traffic.drop(two[0], 29511)
    head = Part(two[0], tmp_path, (), {"LASTS": "25"})
    second = None
    try:
        took = head.waits_for("it has started")
        assert 4.5 < took < 9.0, "five seconds, and what a start takes on a busy machine"
        second = Part(two[1], tmp_path, (), {"LASTS": "15"})
        head.waits_for("before the start: error n2 cannot connect to the rendezvous port 29511 of n1")
        assert (head.process.wait(PATIENCE), second.process.wait(PATIENCE)) == (0, 0)
    finally:
        for part in filter(None, (head, second)):
            part.end()


@pytest.fixture
def four() -> Iterator[tuple[Host, ...]]:
    with hosts("n1", "n2", "n3", "n4") as machines:
        yield machines


OF_FOUR = {
    "none": None,
    "ports of n3": r"error .*\bn3\b.*\[ports-blocked-between-nodes\]",
    "between n2 and n4": r"error (?=.*\bn2\b)(?=.*\bn4\b).*\[ports-blocked-between-nodes\]",
    "port of the ranks": r"error n\[2-4\] .*29511 of n1.*\[master-unreachable\]",
    "large packets of n4": r"error .*\bn4\b.*\[large-packets-lost\]",
    "interface of n2": r"error (?=.*\bn2\b).*eth7.*\[socket-interface-missing\]",
}
"""What is wrong on one of four nodes, and what must be said of it, written before any was run."""


@pytest.mark.parametrize("fault", OF_FOUR)
def test_four_nodes_and_a_fault_of_one(four: tuple[Host, ...], tmp_path: Path, fault: str) -> None:
    of_n2 = {"GLOO_SOCKET_IFNAME": "eth7"} if fault == "interface of n2" else {}
    if fault == "ports of n3":
        four[2].filter('iif != "lo" tcp dport 20000-65535 ct state new drop')
    elif fault == "between n2 and n4":
        four[1].filter(f"ip saddr {four[3].address()} tcp dport 20000-65535 ct state new drop")
        four[3].filter(f"ip saddr {four[1].address()} tcp dport 20000-65535 ct state new drop")
    elif fault == "port of the ranks":
        traffic.drop(four[0], 29511)
    elif fault == "large packets of n4":
        traffic.switch_mtu(four[3], 1400)
    parts = []
    lasts = "20" if fault == "none" else "90"
    try:
        for number, machine in enumerate(four):
            variables = {"LASTS": lasts, **(of_n2 if number == 1 else {})}
            parts.append(Part(machine, tmp_path, (), variables, nodes=4))
        head = parts[0]
        while head.process.poll() is None and "before the start: error" not in head.said:
            time.sleep(0.2)
        said = head.said
    finally:
        for part in parts:
            part.end()
    expected = OF_FOUR[fault]
    assert said.count("before the start: error") == (expected is not None), said
    assert expected is None or re.search(f"(?m)^gpudoctor: before the start: {expected}", said), said
