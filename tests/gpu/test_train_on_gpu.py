"""`gpudoctor train-test` on real GPUs: DDP with several NCCL ranks on one GPU (NCCL_HOSTID), and on all there are."""

import subprocess
import sys

import pytest

from gpudoctor.envelope import decode
from gpudoctor.snapshot import Snapshot, from_json
from gpudoctor.train.report import TrainReport
from tests.gpu.nccl_ranks import need_nccl

pytestmark = pytest.mark.timeout(900)


def trained(environment: dict[str, str], *arguments: str) -> TrainReport:
    done = subprocess.run(
        [sys.executable, "-m", "gpudoctor", "train-test", "--json", "--python", sys.executable, *arguments],
        capture_output=True,
        timeout=800,
        env=environment,
    )
    assert b"Traceback" not in done.stderr, done.stderr[-2000:]
    assert done.stdout, done.stderr
    return decode(done.stdout, TrainReport)


def why(report: TrainReport) -> str:
    """For an assertion: what did not pass."""
    found = [cell.finding.problem.summary for cell in report.cells if cell.finding is not None]
    return "\n".join([*found, *(finding.problem.summary for finding in report.findings)])


@pytest.mark.parametrize("ranks", [2, 3])
def test_ranks_on_one_gpu_train_the_same_model_over_nccl(
    ranks: int, machine: Snapshot, environment: dict[str, str]
) -> None:
    need_nccl()
    report = trained(
        environment,
        *("--strategy", "ddp,no_sync", "--precision", "fp32,bf16,fp16"),
        *("--gpus-per-node", str(ranks), "--ranks-share-gpu", "--backend", "nccl", "--timeout", "120"),
    )
    assert report.exit_status == 0, why(report)
    assert report.backend == "nccl" and report.ranks_per_node == (ranks,)
    by_precision = {cell.precision: cell for cell in report.cells if cell.way == "ddp"}
    assert by_precision["fp32"].outcome == by_precision["fp16"].outcome == "passed"
    for cell in by_precision.values():
        if cell.trained is not None and cell.outcome == "passed":
            assert cell.trained.ranks == ranks
            assert all(device.startswith("cuda") for device in cell.trained.devices)
            assert cell.trained.step_seconds is not None and cell.trained.step_seconds > 0


def test_every_way_passes_or_says_why_not(machine: Snapshot, environment: dict[str, str]) -> None:
    need_nccl()
    report = trained(environment, "--strategy", "all", "--precision", "fp32,bf16,fp16", "--timeout", "120")
    assert report.exit_status == 0, why(report)
    for cell in report.cells:
        assert cell.outcome == "passed" or (cell.outcome == "not applicable" and cell.reason), cell


def test_check_deep_trains_and_computes_on_the_gpus(machine: Snapshot, environment: dict[str, str]) -> None:
    gpus = need_nccl()
    done = subprocess.run(
        [sys.executable, "-m", "gpudoctor", "capture", "--deep", "--timeout", "120", "--python", sys.executable],
        capture_output=True,
        timeout=800,
        env=environment,
    )
    assert done.returncode == 0 and b"Traceback" not in done.stderr, done.stderr
    active = from_json(done.stdout).active
    assert [target.device for target in active.amp.value] == [f"cuda:{number}" for number in range(gpus)]
    for target in active.amp.value:
        assert {each.outcome for each in target.results.value} == {"passed"}, target
    (result,) = active.train.value
    assert (result.outcome, result.backend) == ("passed", "nccl" if gpus > 1 else "gloo"), result.error
