"""A fake NVIDIA driver: libnvidia-ml.so.1 and libcuda.so.1 that answer from a description of a machine.

    from tests.lab import machines
    from tests.lab.nvidia import fake_nvidia

    with fake_nvidia(machines.hgx_h100()) as environment:
        subprocess.run([sys.executable, "-m", "gpudoctor", "check"], env=environment, ...)

The libraries are found through LD_LIBRARY_PATH, so whatever the process starts gets them too: the NVML reader, the
libcuda reader, torch (`torch.cuda._device_count_nvml()` works, allocating does not). CUDA_VISIBLE_DEVICES and
CUDA_DEVICE_ORDER are not in the environment unless passed: `fake_nvidia(machine, CUDA_VISIBLE_DEVICES="1")`.

A machine is made from `tests.lab.machines`, whole or by cards, and changed with its methods:

    hgx_h100().but_gpu(3, temperature=97).call("nvmlDeviceGetMemoryInfo_v2", "fail:999", gpu=5)
    hgx_h100().lost(3)                       # every call about GPU 3, its handle too, says "GPU is lost"
    hgx_h100().call("nvmlInit", "block")     # fail:CODE, block, crash (SIGSEGV), lie (garbage), ok

Functions go by their name in the library (nvmlDeviceGetMemoryInfo_v2, nvmlDeviceGetHandleByIndex_v2, cuInit), with
"nvmlInit" for all its variants and "*" for any. A key that a card lacks is NotSupported; fake_nvidia/*.c say which
there are. Without gcc the test is skipped ("no C compiler"), see requirements.py.
"""

import contextlib
import functools
import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from tests.lab.folders import own_folder, passing_folder
from tests.lab.requirements import require

SOURCES = Path(__file__).parent / "fake_nvidia"
Value = str | int
Card = Mapping[str, Value]
"""What one GPU is: "name", "uuid", "memory", ... as tests/lab/fake_nvidia/nvml.c asks for them."""


@dataclass(frozen=True)
class Machine:
    """A machine with NVIDIA GPUs, in NVML's order."""

    gpus: tuple[Card, ...]
    driver: str = "580.95.05"
    cuda: int = 13000
    """As CUDA writes it: 13000 is 13.0."""
    facts: Mapping[str, Value] = field(default_factory=dict)
    """Machine-wide keys: "p2p.read", "p2p.nvlink.0.1", ..."""
    calls: Mapping[str, str] = field(default_factory=dict)
    """Misbehaviour: "nvmlInit" or "nvmlDeviceGetName.3" -> "fail:18"."""

    def but_gpu(self, index: int, **facts: Value | None) -> "Machine":
        """With facts of one GPU replaced; None takes one away (NotSupported)."""
        changed = {key: value for key, value in {**self.gpus[index], **facts}.items() if value is not None}
        return replace(self, gpus=(*self.gpus[:index], changed, *self.gpus[index + 1 :]))

    def call(self, function: str, order: str, gpu: int | None = None) -> "Machine":
        """With a function that misbehaves, for all GPUs or one."""
        name = function if gpu is None else f"{function}.{gpu}"
        return replace(self, calls={**self.calls, name: order})

    def lost(self, index: int) -> "Machine":
        """With a GPU that fell off the bus."""
        return self.call("*", "fail:15", gpu=index)

    def text(self) -> str:
        """The description as the fake libraries read it."""
        lines = [f"gpus={len(self.gpus)}", f"driver={self.driver}", f"nvml={self.cuda // 1000}.{self.driver}"]
        lines += [f"cuda={self.cuda}"]
        lines += [f"{key}={value}" for key, value in self.facts.items()]
        lines += [f"call.{name}={order}" for name, order in self.calls.items()]
        lines += [f"gpu.{index}.{key}={value}" for index, card in enumerate(self.gpus) for key, value in card.items()]
        return "\n".join(lines) + "\n"


@functools.cache
def libraries() -> Path:
    """The folder with the two fake libraries, built on first use and removed when this process ends."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    require(compiler, "no C compiler: apt-get install gcc libc6-dev")
    folder = own_folder("gpudoctor-fake-nvidia-")
    stubs = folder / "stubs.c"
    stubs.write_text("".join(f"__attribute__((weak)) int {name}(void) {{ return 3; }}\n" for name in nvml_symbols()))
    for name, sources in (("libnvidia-ml", [SOURCES / "nvml.c", stubs]), ("libcuda", [SOURCES / "cuda.c"])):
        options = ["-shared", "-fPIC", "-pthread", "-O1", "-Wall", "-Wextra", "-Werror", f"-Wl,-soname,{name}.so.1"]
        command = [str(compiler), *options, "-o", str(folder / f"{name}.so.1"), *map(str, sources)]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    return folder


def nvml_symbols() -> list[str]:
    """Every symbol of libnvidia-ml.so.1 that the installed nvidia-ml-py can ask for."""
    specification = importlib.util.find_spec("pynvml")
    assert specification is not None and specification.origin is not None
    source = Path(specification.origin).read_text(encoding="utf-8")
    return sorted(set(re.findall(r"_nvmlGetFunctionPointer\(\"(\w+)\"\)", source)))


@contextlib.contextmanager
def fake_nvidia(machine: Machine, **variables: str) -> Iterator[dict[str, str]]:
    """The environment for processes that are to run on this machine, with further variables."""
    folder = libraries()
    hidden = ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "NVIDIA_VISIBLE_DEVICES")
    environment = {name: value for name, value in os.environ.items() if name not in hidden}
    search = environment.get("LD_LIBRARY_PATH")
    environment["LD_LIBRARY_PATH"] = f"{folder}:{search}" if search else str(folder)
    with passing_folder("gpudoctor-fake-machine-") as place:
        description = place / "machine.txt"
        description.write_text(machine.text(), encoding="utf-8")
        yield {**environment, "FAKE_NVIDIA_MACHINE": str(description), **variables}
