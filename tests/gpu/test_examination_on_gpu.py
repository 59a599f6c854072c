"""`gpudoctor check --deep` on a real GPU: it sees the GPUs, runs the smoke test on each, and nothing crashes."""

import json
import subprocess
import sys
from typing import Any

import pytest

from gpudoctor.snapshot import Snapshot, from_json

pytestmark = pytest.mark.timeout(600)


def run(environment: dict[str, str], *arguments: str) -> tuple[int, bytes]:
    done = subprocess.run(
        [sys.executable, "-m", "gpudoctor", *arguments, "--timeout", "120", "--python", sys.executable],
        capture_output=True,
        timeout=540,
        env=environment,
    )
    assert b"Traceback" not in done.stderr, done.stderr
    return done.returncode, done.stdout


@pytest.fixture(scope="module")
def captured(machine: Snapshot, environment: dict[str, str]) -> Snapshot:
    status, output = run(environment, "capture", "--deep")
    assert status == 0
    return from_json(output)


def test_every_gpu_is_read(captured: Snapshot, machine: Snapshot) -> None:
    gpus = captured.nvidia.gpus.value
    assert [gpu.uuid.value for gpu in gpus] == [gpu.uuid.value for gpu in machine.nvidia.gpus.value]
    for gpu in gpus:
        assert 1 << 30 < gpu.memory_total_bytes.value < 1 << 40
        assert gpu.compute_capability.value >= (5, 0)
        assert gpu.processes.is_read


def test_the_smoke_test_passes_on_every_device(captured: Snapshot) -> None:
    if not captured.training.torch.value.cuda_built:
        pytest.skip(f"torch {captured.training.torch.value.version} of this interpreter is built without CUDA")
    targets = captured.active.smoke.value
    assert len(targets) == len(captured.cuda.visible.value.devices)
    for target in targets:
        result = target.result.value
        assert result.outcome == "passed", result.error
        assert (result.host_to_device_bytes_per_second or 0) > 1e9  # PCIe generation 1 x16 is 4e9


def test_the_report_is_complete(machine: Snapshot, environment: dict[str, str]) -> None:
    status, output = run(environment, "check", "--deep", "--json")
    report: dict[str, Any] = json.loads(output)
    assert status in (0, 1, 3)
    assert report["verdict"] in ("ready", "not ready", "cannot tell")
    outcomes = {result["check"]: result["outcome"] for result in report["results"]}
    assert [check for check, outcome in outcomes.items() if outcome == "crashed"] == []
    assert outcomes["cuda-visible-devices-disagrees"] == "ok"
    assert list(outcomes.values()).count("ok") > len(outcomes) / 3
