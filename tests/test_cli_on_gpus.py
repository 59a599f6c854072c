"""`gpudoctor` as a user types it on machines with NVIDIA GPUs: real processes, the lab's fake driver under them."""

import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import psutil
import pytest

from tests.lab import machines

Environment = Callable[..., dict[str, str]]


def check(environment: dict[str, str], *arguments: str) -> tuple[int, dict[str, Any], str]:
    """Exit status, results by check, standard error."""
    command = [sys.executable, "-m", "gpudoctor", "check", "--json", "--no-torch", *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=90)
    assert "Traceback" not in done.stderr
    return done.returncode, {result["check"]: result for result in json.loads(done.stdout)["results"]}, done.stderr


def summaries(results: dict[str, Any]) -> str:
    return "\n".join(problem["summary"] for result in results.values() for problem in result.get("problems", []))


HOST_CHECKS = ("kernel-too-old", "disk-space-low", "swap-in-use")


@pytest.mark.parametrize(
    ("call", "fault", "fires", "named"),
    [
        ("nvmlInit", "block", "nvml-unresponsive", "nvmlInit"),
        ("nvmlInit", "crash", "nvml-broken", "SIGSEGV"),
        ("nvmlInit", "fail:18", "nvidia-driver-library-mismatch", "18"),
        ("cuInit", "block", "cuda-driver-unresponsive", "cuInit"),
        ("cuInit", "crash", "cuda-driver-crashed", "cuInit"),
        ("cuInit", "fail:802", "cuda-init-failed", "802"),
    ],
)
def test_a_driver_that_hangs_or_dies_is_named_and_the_host_is_judged(
    environment_on: Environment, call: str, fault: str, fires: str, named: str
) -> None:
    before = {child.pid for child in psutil.Process().children(recursive=True)}
    environment = environment_on(machines.hgx_h100().call(call, fault))
    status, results, _ = check(environment, "--timeout", "2")
    assert status == 1
    assert results[fires]["outcome"] == "problem", results[fires]
    assert named in summaries({fires: results[fires]})
    assert {results[name]["outcome"] for name in HOST_CHECKS} <= {"ok", "problem"}
    assert {child.pid for child in psutil.Process().children(recursive=True)} <= before


def test_one_gpu_that_blocks_is_named_and_the_others_are_judged(environment_on: Environment) -> None:
    machine = machines.hgx_h100().call("nvmlDeviceGetMemoryInfo_v2", "block", gpu=3)
    machine = machine.but_gpu(5, **{"pcie.width": 8})
    status, results, _ = check(environment_on(machine), "--timeout", "2")
    assert status == 1
    text = summaries(results)
    assert "GPU 3" in text and "nvmlDeviceGetMemoryInfo" in text


def test_a_wrong_entry_is_named_with_what_was_probably_meant(environment_on: Environment) -> None:
    status, results, _ = check(environment_on(machines.hgx_h100(), CUDA_VISIBLE_DEVICES="0,1,12,3"))
    assert status == 1
    problem = results["cuda-visible-devices-entry-invalid"]["problems"][0]
    assert '"12"' in problem["summary"]
    assert results["cuda-visible-devices-disagrees"]["outcome"] == "ok", "the driver itself was asked"


def test_devices_answers_for_any_value(environment_on: Environment) -> None:
    command = [sys.executable, "-m", "gpudoctor", "devices", "--json", "--cuda-visible-devices", "2,1"]
    environment = environment_on(machines.hgx_h100())
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=90)
    answer = json.loads(done.stdout)
    assert [device["nvml"] for device in answer["visible"]] == [2, 1]
    assert answer["agrees"] is True
