"""The report of `python -m torch.utils.collect_env`: which torch, for which CUDA, beside which GPUs and driver.

Source: torch/utils/collect_env.py (`env_info_fmt`, `pretty_str`), torch 1.0 to 2.13. It asks nvidia-smi for the GPUs'
names and the driver, and torch whether CUDA is available; vLLM's and others' reports contain it.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gpudoctor.command import is_a
from gpudoctor.knowledge.gpus.gpu_models import capability_of
from gpudoctor.knowledge.pytorch.companions import made_for
from gpudoctor.knowledge.pytorch.cuda_versions import minor
from gpudoctor.lazy import lazy_re
from gpudoctor.read.nvidia_smi_values import label
from gpudoctor.read.pasted.part import Pasted, ToolOutput, gpu
from gpudoctor.snapshot import (
    NOT_IN_OUTPUT,
    Gpu,
    Probe,
    Reading,
    TorchFacts,
    TorchFiles,
    absent,
    missing,
    read,
)

SOURCE = "collect_env"
HEADING = lazy_re(r"(?:Collecting environment information\.\.\.|PyTorch version *: \S)")
FACT = lazy_re(r"(?P<name>[A-Z][\w .]{1,40}?) *: *(?P<value>.{0,200})$")
GPU = lazy_re(
    r"(?:GPU models and configuration *: *)?GPU (?P<index>\d{1,3}): (?P<name>\S.{0,80}?)(?: \(UUID: .{1,60}\))?$"
)
PACKAGE = lazy_re(r"\[(?:pip3?|conda)\] +(?P<name>[A-Za-z][\w.-]{0,80})(?:==| +)(?P<version>\d[\w.+!-]{0,60})")
PIP = ("[pip] ", "[pip3] ")
UNSAID = frozenset({"", "N/A", "None", "No CUDA", "Could not collect"})
YES_OR_NO = {"True": True, "Yes": True, "False": False, "No": False}
LAST = "Versions of relevant libraries"
"""The report's last section."""
CONDA_NAMES = {"pytorch": "torch"}


def parse(block: Pasted) -> ToolOutput:
    facts: dict[str, str] = {}
    for line in block.lines:
        if (match := FACT.match(line)) is not None:
            facts.setdefault(match["name"], match["value"].strip())
    packages = _packages(block.lines)
    gpus = tuple(gpus_of(block.lines))
    is_cut = not any(line.startswith(LAST) for line in block.lines)
    lacks = ["the report is cut"] if is_cut else []
    if not gpus and facts.get("GPU models and configuration", "cut") in UNSAID and not is_cut:
        lacks.append("nvidia-smi showed it no GPU and no driver: there is none, or PATH or the container lacks it")
    return ToolOutput(
        SOURCE,
        gpus or None,
        driver_of(facts.get("Nvidia driver version", ""), SOURCE),
        training=training(facts, gpus, packages, is_cut=is_cut),
        lacks=tuple(lacks),
        tells="what is installed",
    )


def driver_of(driver: str, source: str) -> dict[str, Reading[Any]]:
    is_told = driver not in UNSAID and is_a("version", driver)
    return {"driver_version": read(source, driver)} if is_told else {}


def gpus_of(lines: Iterable[str], tool: str = SOURCE) -> Iterable[Gpu]:
    seen = set[int]()
    for line in lines:
        match = GPU.match(line)
        if match is None or int(match["index"]) in seen:
            continue
        seen.add(int(match["index"]))
        source = f"{tool}, GPU {match['index']}"
        told: dict[str, Reading[Any]] = {}
        try:
            told["name"] = read(source, label(match["name"]))
        except ValueError:
            continue
        if (capability := capability_of(match["name"])) is not None:
            told["compute_capability"] = read(f"{source}, by its name", capability)
        yield gpu(int(match["index"]), source, told)


def _packages(lines: Sequence[str]) -> dict[str, str]:
    """What pip's and conda's lists show, pip's first."""
    found: dict[str, str] = {}
    for match in filter(None, map(PACKAGE.match, lines)):
        name = CONDA_NAMES.get(match["name"], match["name"])
        if is_a("package", name) and is_a("version", match["version"]):
            found.setdefault(name, match["version"])
    if any(line.startswith(PIP) for line in lines):
        found.setdefault("pip", "")  # it made the list
    return found


def training(
    facts: Mapping[str, str], gpus: tuple[Gpu, ...], packages: dict[str, str], *, is_cut: bool, source: str = SOURCE
) -> dict[str, Reading[Any]]:
    told: dict[str, Reading[Any]] = {}
    python = facts.get("Python version", "").split(" ")[0]
    if python and is_a("version", python):
        told["python_version"] = read(source, python)
    if packages:
        told["packages"] = read(source, packages)
        pins = {name: wanted for name, version in packages.items() if (wanted := made_for(name, version))}
        told["torch_pins"] = read("the numbers of their releases", pins)
    version = facts.get("PyTorch version", "")
    if version == "N/A":
        if "torch" in packages:
            raised = Probe("raised", "import torch", f"{source} could not import it")
            return told | {"torch_probe": read(source, raised)}
        return told if is_cut else told | {"torch_files": absent(source, f"{source} found no torch to import")}
    if not is_a("version", version) or not facts.get("CUDA used to build PyTorch"):
        return told  # cut before it says for what it was built
    cuda = _number(facts["CUDA used to build PyTorch"])
    hip = _number(facts.get("ROCM used to build PyTorch", ""))
    xpu = "xpu" if "+xpu" in version or facts.get("Is XPU available") in ("True", "Yes") else None
    told["torch_files"] = read(source, TorchFiles(version, "", cuda, hip, xpu))
    available = YES_OR_NO.get(facts.get("Is CUDA available", ""))
    if available is None:
        return told | {"torch": missing(source, NOT_IN_OUTPUT)}
    count = len(gpus) if available else 0
    seen = TorchFacts(version, cuda, hip, cuda is not None, available, count)
    return told | {"torch": read(source, seen)}


def _number(value: str) -> str | None:
    return value if value not in UNSAID and minor(value) is not None else None
