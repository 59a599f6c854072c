"""`gpudoctor amp` on real GPUs: what the hardware has passes, and its speeds are those of a plain loop of torch.

    python -m pytest tests/gpu/test_amp_on_gpu.py -n0 -rs

With GPUDOCTOR_MEASURED=docs/measured in the environment, the figures are written there (tests/gpu/measured.py).
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from datetime import datetime, timezone

import pytest

from gpudoctor.amp.report import AmpDevice, AmpReport, Precision, Speed
from gpudoctor.envelope import decode
from gpudoctor.knowledge.precision.support import has_tensor_cores
from gpudoctor.snapshot import Snapshot, from_json as snapshot_from_json
from tests.gpu.measured import record

pytestmark = pytest.mark.timeout(900)
WANTED_OF_A_PLAIN_LOOP = 0.9
LOOP = """
import sys, time, json, torch
device, rows = sys.argv[1], int(sys.argv[2])
left = torch.randn(rows, rows, device=device).to(torch.bfloat16)
right = torch.randn(rows, rows, device=device).to(torch.bfloat16)
wait = torch.cuda.synchronize if device != "cpu" else (lambda: None)
for _ in range(5):
    left @ right
wait()
rates = []
for _ in range(5):
    began = time.perf_counter()
    for _ in range(20):
        left @ right
    wait()
    rates.append(20 * 2 * rows**3 / (time.perf_counter() - began) / 1e12)
print(json.dumps(sorted(rates)[2]))
"""


def plain_rate(device: str, rows: int, environment: Mapping[str, str]) -> float:
    """TFLOP/s of bf16 products of this size in a plain loop, the median of five windows."""
    done = subprocess.run(
        [sys.executable, "-c", LOOP, device, str(rows)],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, done.stderr[-1000:]
    return float(json.loads(done.stdout))


def need_cuda(environment: Mapping[str, str]) -> int:
    """How many GPUs this interpreter's torch can use; skips where that is none."""
    done = subprocess.run(
        [sys.executable, "-c", "import torch; print(torch.cuda.device_count())"],
        capture_output=True,
        text=True,
        timeout=300,
        env=dict(environment),
    )
    count = int(done.stdout) if done.returncode == 0 and done.stdout.strip().isdigit() else 0
    if count == 0:
        pytest.skip(f"this interpreter's torch sees no GPU {done.stderr[-200:]}")
    return count


@pytest.fixture(scope="module")
def report(machine: Snapshot, environment: dict[str, str]) -> AmpReport:
    count = need_cuda(environment)
    done = subprocess.run(
        [sys.executable, "-m", "gpudoctor", "amp", "--json", "--python", sys.executable, "--timeout", "120"],
        capture_output=True,
        timeout=140 * count + 60,
        env=environment,
    )
    assert b"Traceback" not in done.stderr, done.stderr
    answer = decode(done.stdout, AmpReport)
    assert done.returncode == answer.exit_status == 0, [problem.summary for problem in answer.problems]
    assert [device.device for device in answer.devices] == [f"cuda:{number}" for number in range(count)]
    return answer


def captured(environment: dict[str, str]) -> Snapshot:
    """The whole machine, for what a page says of the host."""
    command = [sys.executable, "-m", "gpudoctor", "capture", "--no-torch", "--timeout", "120"]
    return snapshot_from_json(subprocess.run(command, capture_output=True, timeout=300, env=environment).stdout)


def product(precision: Precision) -> Speed | None:
    return next((speed for speed in precision.speeds if speed.what == "matmul"), None)


def of(device: AmpDevice, dtype: str) -> Precision:
    return next(each for each in device.precisions if each.dtype == dtype)


def test_every_precision_that_the_hardware_has_passes(report: AmpReport) -> None:
    for device in report.devices:
        assert device.error == ""
        for each in device.precisions:
            wanted = "passed" if each.support in ("hardware", "hardware, slow", "emulated") else "not applicable"
            assert each.outcome == wanted, (device.device, each.dtype, each.error)
        scaler = of(device, "fp16").scaler
        assert scaler is not None and (scaler.outcome, scaler.skipped, scaler.recovered) == ("passed", True, True)
        assert of(device, "fp16").overflow is True and of(device, "bf16").overflow is False


def test_tensor_cores_are_faster_than_fp32(report: AmpReport) -> None:
    for device in report.devices:
        for each in device.precisions:
            if each.dtype != "tf32" and has_tensor_cores(each.dtype, device.name, device.capability):
                speed = product(each)
                assert speed is not None and speed.factor > 1.5, (device.name, each.dtype, speed)


def test_bf16_is_measured_as_fast_as_a_plain_loop_and_can_be_recorded(
    report: AmpReport, environment: dict[str, str]
) -> None:
    rates: dict[str, float] = {}
    ours: dict[str, float] = {}
    for device in report.devices:
        speed = product(of(device, "bf16"))
        if speed is None or speed.teraflops is None:
            continue
        rates[device.device] = plain_rate(device.device, int(speed.size.split("x")[0]), environment)
        ours[device.device] = speed.teraflops
    if not rates:
        pytest.skip("bf16 was not timed on any GPU")
    file = record(report, captured(environment), rates, datetime.now(timezone.utc).date())
    print("written:", file, rates, ours)
    assert all(ours[device] >= WANTED_OF_A_PLAIN_LOOP * rate for device, rate in rates.items()), (ours, rates)
