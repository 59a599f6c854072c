"""`gpudoctor train-test` with real torchrun and gloo: what passes, what hangs or dies, and hosts of the lab."""

import contextlib
import signal
import sys
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import psutil
import pytest

from gpudoctor.fleet.local import LocalFleet
from gpudoctor.nccl.wish import Wish
from gpudoctor.train.report import Cell, TrainReport
from gpudoctor.train.run import train_test
from gpudoctor.train.show import TrainShow
from gpudoctor.train.ways import Precision
from gpudoctor.train.wish import TrainWish
from tests.lab.slurm import slurm_cluster
from tests.lab.sshd import Cluster, ssh_hosts, user_environment, wait_until

pytestmark = [pytest.mark.timeout(600), pytest.mark.usefixtures("forks")]
"""Several processes import torch at once, beside the other tests."""
COMMAND = (sys.executable, "-m", "gpudoctor", "train-test")


def wish(
    *ways: str, precisions: tuple[Precision, ...] = ("fp32",), steps: int = 6, timeout: float = 200.0
) -> TrainWish:
    test = Wish(backend="gloo", ranks_per_node=2, timeout=timeout, python=sys.executable)
    return TrainWish(ways=ways, precisions=precisions, steps=steps, test=test)


class Meddler(TrainShow):
    """Does something once, when the first rank's phase begins with some words; notes the cells."""

    def __init__(self, fleet: LocalFleet, words: str, act: Callable[[psutil.Process], object]) -> None:
        self.fleet = fleet
        self.words = words
        self.act: Callable[[psutil.Process], object] | None = act
        self.cells: list[str] = []

    def phase(self, text: str) -> None:
        if self.act is not None and text.startswith(self.words):
            act, self.act = self.act, None
            act(rank(self.fleet, 1))

    def cell(self, cell: Cell) -> None:
        self.cells.append(f"{cell.way} {cell.precision} {cell.outcome}")


def rank(fleet: LocalFleet, number: int) -> psutil.Process:
    """The process of a rank that an agent of this fleet has started."""
    for process in psutil.Process(fleet.pid(0)).children(recursive=True):
        with contextlib.suppress(psutil.Error):
            if process.environ().get("RANK") == str(number):
                return process
    raise AssertionError(f"there is no rank {number}")


@pytest.fixture
def fleet() -> Iterator[LocalFleet]:
    """An agent on this machine, which leaves no process."""
    with LocalFleet(["here"], environment=user_environment()) as made:
        agent = psutil.Process(made.pid(0))
        yield made
        left = agent.children(recursive=True)
        wait_until(lambda: not any(map(runs, left)), 30)


def runs(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


def outcomes(report: TrainReport) -> dict[str, str]:
    return {f"{cell.way} {cell.precision}": cell.outcome for cell in report.cells}


def cell_named(report: TrainReport, name: str) -> Cell:
    return next(cell for cell in report.cells if f"{cell.way} {cell.precision}" == name)


def test_a_rank_that_is_killed_names_its_cell_and_the_others_go_on(fleet: LocalFleet) -> None:
    show = Meddler(fleet, "ddp fp32 step 3", lambda process: process.send_signal(signal.SIGKILL))
    report = train_test(fleet, wish("ddp", "no_sync", steps=60), show)
    assert outcomes(report) == {"ddp fp32": "crashed", "no_sync fp32": "passed"}, report.findings
    finding = cell_named(report, "ddp fp32").finding
    assert finding is not None and (finding.id, finding.ranks) == ("rank-died", (1,))
    assert "rank 1" in finding.problem.summary and "ddp fp32" in finding.problem.summary
    assert show.cells == ["ddp fp32 crashed", "no_sync fp32 passed"]
    assert (report.outcome, report.exit_status) == ("complete", 1)
    assert not fleet.lost


def test_a_cell_that_hangs_is_ended_and_the_others_go_on(fleet: LocalFleet) -> None:
    show = Meddler(fleet, "no_sync fp32 step 2", lambda process: process.send_signal(signal.SIGSTOP))
    report = train_test(fleet, wish("ddp", "no_sync", "fsdp", steps=60, timeout=40), show)
    assert outcomes(report) == {"ddp fp32": "passed", "no_sync fp32": "hung", "fsdp fp32": "passed"}, report.findings
    finding = cell_named(report, "no_sync fp32").finding
    assert finding is not None and (finding.id, finding.ranks) == ("stopped-rank", (1,))
    assert "no_sync fp32" in finding.problem.summary


def test_what_was_trained_before_an_interrupt_is_kept(fleet: LocalFleet) -> None:
    def interrupt(process: psutil.Process) -> None:
        raise KeyboardInterrupt

    report = train_test(fleet, wish("ddp", "no_sync", "single", steps=60), Meddler(fleet, "no_sync fp32", interrupt))
    assert outcomes(report) == {"ddp fp32": "passed", "no_sync fp32": "not reached", "single fp32": "not reached"}, (
        report.findings
    )
    assert (report.outcome, report.exit_status) == ("interrupted", 130)


def test_ranks_that_never_start_blame_no_cell(fleet: LocalFleet, tmp_path: Any) -> None:
    """torch is there for the doctor's look at its files, and cannot be imported."""
    package = tmp_path / "torch"
    package.mkdir()
    (package / "__init__.py").write_text("raise ImportError('libcudart.so.12: cannot open shared object file')\n")
    (package / "version.py").write_text("__version__ = '2.13.0'\ncuda = None\n")
    environment = {**user_environment(), "PYTHONPATH": str(tmp_path)}
    with LocalFleet(["here"], environment=environment) as broken:
        report = train_test(broken, wish("ddp", "single"), TrainShow())
    assert outcomes(report) == {"ddp fp32": "not reached", "single fp32": "not reached"}, report.findings
    assert report.exit_status == 1
    assert any("libcudart.so.12" in finding.problem.summary for finding in report.findings)


# ---------------------------------------------------------------- several hosts


def answer(output: str) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.json.decode(output)
    return found


def on_hosts(cluster: Cluster, *options: str) -> dict[str, Any]:
    names = ",".join(host.name for host in cluster.hosts)
    words = (*COMMAND, "--hosts", names, "--json", "--steps", "6", "--timeout", "200", *options)
    done = cluster.head.run(*words, environment=cluster.environment(), timeout=500)
    assert done.returncode in (0, 1), done.stderr
    found = answer(done.stdout)
    assert done.returncode == found["exit_status"]
    return found


def test_three_hosts_by_ssh() -> None:
    with ssh_hosts("a", "b", "c") as cluster:
        found = on_hosts(cluster, "--strategy", "single,ddp,no_sync", "--precision", "fp32")
        assert not cluster.left_over()
    cells = {cell["way"]: cell for cell in found["cells"]}
    assert {way: cell["outcome"] for way, cell in cells.items()} == {
        "single": "not applicable",
        "ddp": "passed",
        "no_sync": "passed",
    }
    assert "one node only" in cells["single"]["reason"]
    assert cells["ddp"]["trained"]["ranks"] == 3
    assert (found["nodes"], found["backend"], found["findings"]) == (["a", "b", "c"], "gloo", [])


def test_a_host_that_ssh_cannot_reach_ends_it_before_any_rank_starts() -> None:
    with ssh_hosts("a", "b") as cluster:
        cluster.refuse_key("b")
        found = on_hosts(cluster, "--strategy", "ddp", "--precision", "fp32")
        assert not cluster.left_over()
    assert (found["outcome"], found["cells"]) == ("too few nodes", [])
    assert [finding["id"] for finding in found["findings"]] == ["node-auth-refused"]


def test_two_nodes_of_slurm() -> None:
    with slurm_cluster(2) as cluster:
        words = (*COMMAND, "--strategy", "ddp", "--precision", "fp32", "--steps", "6", "--json")
        done = cluster.salloc("--nodes=2", *words)
        assert done.returncode == 0, done.stderr
        found = answer(done.stdout)
        assert cluster.left_over() == []
        refused = cluster.srun("--nodes=2", *words)
        assert refused.returncode == 2 and "allocation's shell" in refused.stderr
    (cell,) = found["cells"]
    assert (cell["outcome"], cell["trained"]["ranks"]) == ("passed", 2)
    assert (found["nodes"], found["reached_by"]) == (["n1", "n2"], "srun")
