"""Runs the smoke test of `--deep`: every device that torch sees, each in a child of its own, side by side.

A GPU that hangs costs its own result only, and its child is killed. Without a GPU the same test runs on the CPU.
"""

from collections.abc import Iterator, Sequence

import msgspec

from gpudoctor.active import ChildReply, Waiting, gather, messages, start, worker
from gpudoctor.knowledge.pytorch.torch_devices import gpu_with_uuid
from gpudoctor.named import told
from gpudoctor.read.children import ExamineWish
from gpudoctor.read.python import describe, how_it_ended
from gpudoctor.snapshot import Reading, SmokeResult, SmokeTarget, Snapshot, TorchDevice, missing, read

SOURCE = "CUDA smoke test"
AT_ONCE = 8  # children at the same time: each holds torch (about 1 GiB with CUDA) and its buffers in host memory
SECONDS = 30.0
"""Least budget of one device, whatever `--timeout` says. Importing torch and making a context on each of 8 GPUs at
the same time takes some 10 s; NVRx allows 30 s for its device test, AMD's Primus 15 s."""


def run(wish: ExamineWish, snapshot: Snapshot, waiting: Waiting | None = None) -> Reading[tuple[SmokeTarget, ...]]:
    """Test every device of the snapshot's torch, at most eight at once, each for max(--timeout, 30 s).

    Missing, with the reason, when torch was not or could not be imported.
    """
    torch = snapshot.training.torch
    if not torch.is_read:
        # `absent` would call the test not applicable; it was asked for, and could not be done.
        kind = torch.missing_kind or "failed"
        return missing(SOURCE, f"needs torch: {torch.reason}", "failed" if kind == "absent" else kind)
    targets = [(name(device), pci_bus_id(snapshot, device)) for device in torch.value.devices] or [("cpu", "")]
    seconds = max(wish.timeout, SECONDS)
    done: list[SmokeTarget] = []
    for first in range(0, len(targets), AT_ONCE):
        done += test(wish.interpreter.path, targets[first : first + AT_ONCE], seconds, waiting)
    return read(SOURCE, tuple(done))


def name(device: TorchDevice) -> str:
    """ "cuda:0" for CUDA and for ROCm, whose devices torch calls so too; "xpu:0"."""
    return f"{'xpu' if device.kind == 'xpu' else 'cuda'}:{device.ordinal}"


def pci_bus_id(snapshot: Snapshot, device: TorchDevice) -> str:
    """The PCI bus id of torch's device; empty when NVML does not know it (MIG, ROCm, no UUID)."""
    gpu = gpu_with_uuid(snapshot, device.uuid)
    return gpu.pci_bus_id.value_or("") if gpu else ""


def test(python: str, targets: Sequence[tuple[str, str]], seconds: float, waiting: Waiting | None) -> list[SmokeTarget]:
    """One batch, in the order of its targets."""
    children = []
    try:
        for device, bus_id in targets:
            children.append(start(f"smoke test {device}", worker(python, "smoke", device, bus_id), timeout=seconds))
    except OSError as error:
        for child in children:
            child.end()
        reason = missing(SOURCE, f"{python} cannot be run: {error.strerror or error}")
        return [SmokeTarget(device, reason) for device, _ in targets]
    replies = gather(children, waiting)
    return [SmokeTarget(device, result(device, replies[f"smoke test {device}"], seconds)) for device, _ in targets]


def result(device: str, reply: ChildReply, seconds: float) -> Reading[SmokeResult]:
    """What the worker measured; an exception on the way is a result too, a crash or a deadline is none."""
    said = messages(reply.output)
    measured = {key: value for part in parts(said) for key, value in part.items()}
    probe = how_it_ended(reply, said, seconds)
    if probe.outcome == "raised":
        if measured.get("outcome") != "wrong-result":  # a wrong result stays one, whatever fails after it
            measured |= {"outcome": "failed", "error": f"{probe.step}: {probe.detail}"}
        measured["seconds"] = reply.seconds
    elif probe.outcome != "answered":
        return missing(f"{SOURCE} {device}", describe(probe), "timeout" if probe.outcome == "hung" else "failed")
    try:
        smoke_result = msgspec.convert(measured | {"device": device}, SmokeResult)
    except msgspec.ValidationError as error:
        return missing(f"{SOURCE} {device}", f"the worker answered in an unexpected form: {told(error, measured)}")
    return read(f"{SOURCE} {device}", smoke_result)


def parts(said: Sequence[dict[str, object]]) -> Iterator[dict[str, object]]:
    for message in said:
        part = message.get("result")
        if isinstance(part, dict):
            yield part
