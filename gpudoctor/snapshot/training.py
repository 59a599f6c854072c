"""The training interpreter (read/python.py, workers/) and the active tests it ran."""

from typing import Literal

from msgspec import field

from gpudoctor.named import DeviceName, PackageName, Uuid, Version
from gpudoctor.snapshot.reading import NOT_IN_SNAPSHOT, Reading, missing
from gpudoctor.snapshot.section import Section

Packages = dict[PackageName, Version]


class Library(Section, frozen=True):
    """A shared library that torch needs, as found on disk. `origin` says why the loader would see it."""

    name: Literal["nccl", "cudnn", "cuda"]
    path: str
    origin: Literal["torch", "package", "LD_LIBRARY_PATH", "LD_PRELOAD", "system"]
    version: str = ""
    """From the file (ncclGetVersion, file name) when it could be told; else empty."""
    found_as: str = ""
    """The path by which the loader finds it; `path` is the same file with symbolic links resolved."""


class TorchFiles(Section, frozen=True):
    """What torch's files say without importing it (torch/version.py, distribution metadata)."""

    version: Version
    path: str
    cuda: str | None = None
    hip: str | None = None
    xpu: str | None = None


class TorchDevice(Section, frozen=True):
    """A device as torch enumerates it; `kind` is "cuda", "hip" or "xpu"."""

    ordinal: int
    kind: str
    name: str
    uuid: Uuid = ""
    compute_capability: tuple[int, int] | None = None
    memory_total_bytes: int | None = None


class TorchFacts(Section, frozen=True):
    """What torch itself says, from one `import torch` in the training interpreter."""

    version: Version
    cuda_version: str | None = None
    hip_version: str | None = None
    cuda_built: bool = False
    cuda_available: bool = False
    device_count: int = 0
    devices: tuple[TorchDevice, ...] = ()
    init_error: str = ""
    """The exception or warning text of CUDA initialisation; empty when there was none."""
    cudnn_error: str = ""
    """Why torch refuses the cuDNN that it found; empty when it does not."""
    arch_list: tuple[str, ...] = ()
    """"sm_80", "compute_90", ... compiled into this build."""
    nccl_version: tuple[int, ...] | None = None
    """torch.cuda.nccl.version(); None when this build has no NCCL."""
    cudnn_version: int | None = None
    distributed_backends: tuple[str, ...] = ()
    nvml_device_count: int | None = None
    """torch.cuda._device_count_nvml(): torch's own reading of CUDA_VISIBLE_DEVICES; None when it
    raised, or could not tell (no NVML, MIG)."""
    xpu_available: bool = False
    xla_version: str = ""
    """torch_xla's version when it is installed (its metadata; it is not imported)."""
    import_seconds: float = 0.0
    loaded_libraries: dict[str, str] = field(default_factory=dict)
    """"nccl", "cudnn", "cuda" -> path in /proc/self/maps after initialisation."""


class Probe(Section, frozen=True):
    """How a worker in the training interpreter ended, and at what it was when it did not end well.

    answered: it said all it had to say. raised: a Python exception. crashed: a signal or an exit status.
    unread: we asked for what this release of torch has not. hung: its deadline passed. garbled: it ended well, but what
    it wrote is not a worker's answer.
    """

    outcome: Literal["answered", "raised", "unread", "crashed", "hung", "garbled"] = "answered"
    step: str = ""
    """What it was doing: "import torch", "torch.cuda.is_available()"; empty when it answered."""
    detail: str = ""
    """The exception, the signal, or the beginning of what it wrote instead."""
    timeout_seconds: float = 0.0


class Training(Section, frozen=True):
    """The interpreter that will run the training (the patient)."""

    python: Reading[str] = NOT_IN_SNAPSHOT
    """Its path."""
    chosen_by: Reading[str] = NOT_IN_SNAPSHOT
    """"--python", "$VIRTUAL_ENV", "$CONDA_PREFIX", "gpudoctor's own interpreter" or "python3 on PATH"."""
    python_version: Reading[str] = NOT_IN_SNAPSHOT
    packages: Reading[Packages] = NOT_IN_SNAPSHOT
    """Distribution -> version, of those that matter to training (torch, nvidia-*, pynvml, lightning, ...)."""
    torch_files: Reading[TorchFiles] = NOT_IN_SNAPSHOT
    """Absent when this interpreter has no torch."""
    torch: Reading[TorchFacts] = NOT_IN_SNAPSHOT
    python_probe: Reading[Probe] = NOT_IN_SNAPSHOT
    """How the worker ended that looks at files without importing torch."""
    torch_probe: Reading[Probe] = NOT_IN_SNAPSHOT
    """How the worker ended that imports torch; absent when this interpreter has no torch."""

    @property
    def torch_version(self) -> str:
        """What torch itself says, else what its files say. Raises `NotRead`."""
        facts = self.torch.value_or(None)
        return facts.version if facts else self.torch_files.value.version

    torch_pins: Reading[Packages] = NOT_IN_SNAPSHOT
    """Installed distribution -> the one torch version that its metadata requires (torchvision, torchaudio, ...)."""
    libraries: Reading[tuple[Library, ...]] = NOT_IN_SNAPSHOT
    """Every libnccl/libcudnn/libcuda that the loader could pick, in its order of search."""


class SmokeResult(Section, frozen=True):
    """One device's smoke test: allocate, multiply against a CPU result, copy each way.

    Bandwidths are bytes per second of pinned copies; None where there is no copy to measure (CPU).
    """

    device: DeviceName
    """"cuda:0" or "cpu"."""
    gpu_uuid: Uuid = ""
    outcome: Literal["passed", "wrong-result", "failed"] = "passed"
    error: str = ""
    relative_error: float | None = None
    host_to_device_bytes_per_second: float | None = None
    device_to_host_bytes_per_second: float | None = None
    pcie_generation_loaded: int | None = None
    pcie_width_loaded: int | None = None
    seconds: float = 0.0


class SmokeTarget(Section, frozen=True):
    """A device and its smoke test's result, or why there is none (deadline, crash)."""

    device: DeviceName
    result: Reading[SmokeResult] = NOT_IN_SNAPSHOT


class AmpResult(Section, frozen=True):
    """What one precision gave on one device: a few words of `gpudoctor amp`'s answer (amp/report.py `Precision`)."""

    dtype: str
    """"fp16" or "bf16"."""
    support: str
    """"hardware", "hardware, slow", "emulated", "build", "none" or "unknown"."""
    outcome: Literal["passed", "wrong-result", "failed", "not applicable", "timeout"]
    error: str = ""
    output_error: float | None = None
    """Relative L2 against fp32, the larger of the two small nets'."""
    gradient_error: float | None = None


class AmpTarget(Section, frozen=True):
    """A device and what its precisions gave, or why nothing is known (deadline, crash)."""

    device: DeviceName
    results: Reading[tuple[AmpResult, ...]] = NOT_IN_SNAPSHOT


class TrainResult(Section, frozen=True):
    """A few steps of a tiny model with several processes: a few words of `gpudoctor train-test`'s answer."""

    way: str
    """"ddp"."""
    precision: str
    backend: str
    """"nccl" or "gloo"."""
    ranks: int
    outcome: Literal["passed", "failed", "hung", "crashed"]
    error: str = ""
    """What differs or ended it, in one line, with rank, parameter and step where they are known."""
    finding: str = ""
    """The id of train-test's finding: "train-gradient-differs"."""
    seconds: float = 0.0


class Active(Section, frozen=True):
    """Measurements of the active tests, which run only when asked for (`--deep`)."""

    smoke: Reading[tuple[SmokeTarget, ...]] = missing("CUDA smoke test", "not run; --deep runs it", "not-asked")
    amp: Reading[tuple[AmpTarget, ...]] = missing("mixed precision test", "not run; --deep runs it", "not-asked")
    train: Reading[tuple[TrainResult, ...]] = missing("training test", "not run; --deep runs it", "not-asked")
