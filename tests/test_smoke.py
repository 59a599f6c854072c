"""The smoke test of --deep: its worker, and how its answers are read."""

import importlib.util
import subprocess
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gpudoctor.active import ChildReply
from gpudoctor.read import smoke
from gpudoctor.read.children import ExamineWish
from gpudoctor.read.interpreter import Interpreter
from gpudoctor.snapshot import Snapshot, TorchDevice, absent, missing
from gpudoctor.testing.machines import but, h100_node, node
from tests.lab import machines
from tests.patients import environment, say, script, torch_package

WORKER = Path(__file__).parent.parent / "gpudoctor" / "workers" / "smoke.py"
LINUX = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs Linux")


def wish(python: str = sys.executable, timeout: float = 10.0) -> ExamineWish:
    return ExamineWish(Interpreter(python, "--python"), deep=True, timeout=timeout)


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The worker's functions, without running it."""
    monkeypatch.syspath_prepend(str(WORKER.parent))
    specification = importlib.util.spec_from_file_location("smoke_worker", WORKER)
    assert specification is not None and specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    yield module
    for lock in module.TURN:
        lock.close()


def with_devices(machine: Snapshot, *devices: TorchDevice) -> Snapshot:
    facts = msgspec.structs.replace(machine.training.torch.value, devices=devices, device_count=len(devices))
    return but(machine, "training.torch", facts)


# ---------------------------------------------------------------- the whole way


@pytest.mark.thorough
def test_without_a_gpu_it_runs_on_the_cpu_and_says_so() -> None:
    targets = smoke.run(wish(), with_devices(node(()))).value
    assert [target.device for target in targets] == ["cpu"]
    found = targets[0].result.value
    assert found.outcome == "passed" and found.error == ""
    assert found.relative_error is not None and 0 < found.relative_error < 1e-5
    assert found.host_to_device_bytes_per_second is None, "there is no copy to measure on a CPU"
    assert found.seconds > 0


def test_tf32_set_by_the_environment_is_no_wrong_result() -> None:
    forced = environment(NVIDIA_TF32_OVERRIDE="1", TORCH_ALLOW_TF32_CUBLAS_OVERRIDE="1")
    reply = say(sys.executable, "smoke", "cpu", variables=forced)
    assert smoke.result("cpu", reply, 30.0).value.outcome == "passed"


@pytest.mark.parametrize(
    ("reading", "kind"),
    [
        (missing("import torch", "import torch did not return within 10 s", "timeout"), "timeout"),
        (absent("import torch", "this interpreter has no torch"), "failed"),  # asked for, and not done: skipped
        (missing("import torch", "torch was not imported (--no-torch)", "not-asked"), "not-asked"),
    ],
)
def test_without_torch_there_is_a_reason(reading: Any, kind: str) -> None:
    found = smoke.run(wish(), but(h100_node(), "training.torch", reading))
    assert found.missing_kind == kind
    assert reading.reason in found.reason


RECORDING = """
import os, sys
with open(os.environ["WITNESS"] + "/" + sys.argv[2], "w") as file:
    file.write(sys.argv[3])
if sys.argv[2] == "cuda:1":
    os.kill(os.getpid(), 11)
import json
said = {"result": {"relative_error": 1e-7, "gpu_uuid": sys.argv[2].replace(":", "-")}, "complete": True}
print("@gpudoctor " + json.dumps(said))
"""


@LINUX
@pytest.mark.thorough
def test_every_device_has_its_own_process_and_one_that_dies_costs_only_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "answer.py").write_text(RECORDING)
    python = script(tmp_path, f'#!/bin/sh\nshift\nexec {sys.executable} {tmp_path}/answer.py "$@"\n')
    monkeypatch.setenv("WITNESS", str(tmp_path))
    machine = h100_node(3)
    waited: set[str] = set()
    found = smoke.run(wish(python), machine, waited.update).value
    assert [target.device for target in found] == ["cuda:0", "cuda:1", "cuda:2"]
    assert found[0].result.value.gpu_uuid == "cuda-0" and found[2].result.is_read
    assert found[1].result.missing_kind == "failed" and "SIGSEGV" in found[1].result.reason
    # Each worker is told the PCI address of its GPU, to read the link under load.
    assert (tmp_path / "cuda:2").read_text() == machine.nvidia.gpus.value[2].pci_bus_id.value
    assert waited <= {f"smoke test cuda:{index}" for index in range(3)}


def test_more_than_eight_devices_are_tested_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    batches: list[list[str]] = []

    def record(python: str, targets: Any, seconds: float, waiting: Any) -> list[Any]:
        batches.append([device for device, _ in targets])
        assert seconds == 45.0, "--timeout raises the budget"
        return []

    monkeypatch.setattr(smoke, "test", record)
    devices = [TorchDevice(index, "xpu", "GPU Max") for index in range(11)]
    smoke.run(wish(timeout=45.0), with_devices(node(()), *devices))
    assert [len(batch) for batch in batches] == [8, 3]
    assert batches[1][-1] == "xpu:10"


@pytest.mark.thorough
def test_an_interpreter_that_cannot_be_run_is_a_reason(tmp_path: Path) -> None:
    found = smoke.run(wish(str(tmp_path / "gone")), with_devices(node(()))).value
    assert "cannot be run: No such file" in found[0].result.reason


# ---------------------------------------------------------------- what replies mean


def reply(*lines: str, code: int | None = 0, timed_out: bool = False) -> ChildReply:
    output = "".join(f"@gpudoctor {line}\n" for line in lines).encode()
    return ChildReply("smoke test cuda:0", output, "", code, timed_out, False, 30.0, 4711)


def test_a_deadline_names_the_step_that_did_not_return() -> None:
    hung = reply('{"python": "3.12.1"}', '{"doing": "a matrix product"}', code=None, timed_out=True)
    found = smoke.result("cuda:0", hung, 30.0)
    assert found.missing_kind == "timeout"
    assert found.reason == "a matrix product did not return within 30 s"


def test_an_exception_is_a_result_and_a_wrong_result_stays_one() -> None:
    doing, raised = '{"doing": "the first allocation"}', '{"raised": "OutOfMemoryError: CUDA out of memory."}'
    found = smoke.result("cuda:0", reply(doing, raised), 30.0).value
    assert (found.outcome, found.error) == ("failed", "the first allocation: OutOfMemoryError: CUDA out of memory")
    wrong = '{"result": {"outcome": "wrong-result", "error": "off by 0.1"}}'
    found = smoke.result("cuda:0", reply(doing, wrong, raised), 30.0).value
    assert (found.outcome, found.error) == ("wrong-result", "off by 0.1")


def test_an_answer_of_another_form_is_no_result() -> None:
    odd = reply('{"result": {"relative_error": "small"}, "complete": true}')
    assert "unexpected form" in smoke.result("cuda:0", odd, 30.0).reason


@LINUX
def test_a_torch_without_this_device_fails_with_torchs_words(tmp_path: Path) -> None:
    source = "def device(name):\n    raise RuntimeError('Invalid device ' + name)\n"
    variables = environment(PYTHONPATH=str(torch_package(tmp_path, source)))
    found = smoke.result("cuda:9", say(sys.executable, "smoke", "cuda:9", variables=variables), 30.0).value
    assert (found.outcome, found.error) == ("failed", "import torch: RuntimeError: Invalid device cuda:9")


# ---------------------------------------------------------------- the worker's measurements

PRODUCT = """
import sys; sys.path.insert(0, {folder!r})
import smoke, torch
if {spoil!r} == "bfloat16":
    to = torch.Tensor.to
    torch.Tensor.to = lambda self, *a, **k: to(self, *a, **k).bfloat16().float()
if {spoil!r} == "nan":
    to = torch.Tensor.to
    torch.Tensor.to = lambda self, *a, **k: to(self, *a, **k) * float("nan")
smoke.main(lambda said: print(said), ["cpu"])
"""


@pytest.mark.parametrize("spoil", ["bfloat16", "nan"])
def test_a_device_that_computes_wrongly_is_caught(spoil: str) -> None:
    code = PRODUCT.format(folder=str(WORKER.parent), spoil=spoil)
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=True)
    assert "'outcome': 'wrong-result'" in done.stdout
    assert "a 1024x1024 float32 product is off by" in done.stdout


class Buffer:
    """A tensor on a device that changes one number on its way back, when told to."""

    def __init__(self, values: list[int], flips: bool = False) -> None:
        self.values, self.flips = values, flips

    def pin_memory(self) -> "Buffer":
        return self

    def copy_(self, source: "Buffer", non_blocking: bool = False) -> None:
        self.values = list(source.values)
        if source.flips:
            self.values[3] ^= 1

    def __ne__(self, other: object) -> Any:
        assert isinstance(other, Buffer)
        return types.SimpleNamespace(sum=lambda: sum(a != b for a, b in zip(self.values, other.values, strict=True)))


def fake_torch(*, flips: bool, free_bytes: int = 1 << 30) -> Any:
    """Enough of torch for `copies`; a buffer holds a few numbers in the place of millions."""
    return types.SimpleNamespace(
        int32="int32",
        arange=lambda count, dtype: Buffer(list(range(8))),
        zeros=lambda count, dtype: Buffer([0] * 8),
        empty=lambda count, dtype, device: Buffer([0] * 8, flips),
        equal=lambda one, other: one.values == other.values,
        cuda=types.SimpleNamespace(mem_get_info=lambda device: (free_bytes, 1 << 34), synchronize=lambda device: None),
    )


GPU = types.SimpleNamespace(type="cuda")


def test_a_copy_that_comes_back_changed_is_a_wrong_result(worker: Any) -> None:
    found = worker.copies(fake_torch(flips=True), GPU, "")
    assert found["outcome"] == "wrong-result"
    assert found["error"].startswith("1 of ")


def test_copies_are_timed_each_way(worker: Any) -> None:
    found = worker.copies(fake_torch(flips=False), GPU, "")
    assert "outcome" not in found
    assert found["host_to_device_bytes_per_second"] > 0 and found["device_to_host_bytes_per_second"] > 0
    assert "pcie_generation_loaded" not in found, "nobody said where the GPU is"


def test_a_buffer_that_is_too_small_has_no_speed(worker: Any) -> None:
    found = worker.copies(fake_torch(flips=False, free_bytes=1 << 20), GPU, "")
    assert "host_to_device_bytes_per_second" not in found


@LINUX
def test_copies_next_to_anothers_have_no_speed(worker: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert worker.my_turn(), "nobody else copies"
    monkeypatch.setattr(worker, "TURN_SECONDS", 0.0)
    assert "host_to_device_bytes_per_second" not in worker.copies(fake_torch(flips=False), GPU, "")


def test_the_link_is_read_from_sysfs(worker: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "PCI_DEVICES", str(tmp_path))
    folder = tmp_path / "0000:1b:00.0"
    folder.mkdir()
    (folder / "current_link_speed").write_text("32.0 GT/s PCIe\n")
    (folder / "current_link_width").write_text("16\n")
    assert worker.link_from_sysfs("00000000:1b:00.0") == (5, 16)
    (folder / "current_link_speed").write_text("Unknown\n")
    assert worker.link_from_sysfs("00000000:1b:00.0") is None
    assert worker.link_from_sysfs("00000000:ff:00.0") is None


LINK = """
import sys; sys.path.insert(0, {folder!r})
import smoke
smoke.PCI_DEVICES = "/nowhere"
print([smoke.link_reader(address)() for address in sys.argv[1:]])
"""


def test_the_link_is_read_from_nvml(environment_on: Any) -> None:
    """Against NVML's real binary interface: only the GPU at this address is asked."""
    machine = machines.hgx_h100().but_gpu(1, pcie_generation=3, pcie_width=8)
    addresses = [str(card["pci"]) for card in machine.gpus[:2]]
    command = [sys.executable, "-c", LINK.format(folder=str(WORKER.parent)), *addresses, "00000000:FF:00.0"]
    done = subprocess.run(command, env=environment_on(machine), capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[(5, 16), (3, 8), None]"


def test_the_worker_leaves_no_file_behind(tmp_path: Path) -> None:
    say(sys.executable, "smoke", "cpu", variables=environment(TMPDIR=str(tmp_path), HOME=str(tmp_path)))
    assert list(tmp_path.iterdir()) == []
