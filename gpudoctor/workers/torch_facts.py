"""What torch says of itself and of the devices it can use: one `import torch`, each risky step announced before.

Any step may hang (CUDA initialisation behind a wedged driver) or end the process (a mismatched library). The last
`doing` then names it. Nothing here allocates on a device, and no GPU gets a context.
"""

import os
import time
import warnings
from typing import Any, Callable, Dict, List, Optional

Say = Callable[[Dict[str, Any]], None]


def main(say: Say, arguments: List[str]) -> None:
    """Answers parts of the snapshot's TorchFacts, one after the other; `raised` when torch cannot be imported."""
    # With it set, torch.cuda.is_available() believes NVML instead of asking CUDA.
    os.environ.pop("PYTORCH_NVML_BASED_CUDA_CHECK", None)
    say({"doing": "import torch"})
    started = time.perf_counter()
    try:
        import torch
    except BaseException as error:
        # A package that calls sys.exit while it is imported must not pass for an answer either.
        say({"raised": describe(error), "no_torch": getattr(error, "name", None) == "torch"})
        return
    say({"facts": {"import_seconds": time.perf_counter() - started}})
    with warnings.catch_warnings(record=True) as caught:
        # Torch tells of a failed CUDA initialisation in a warning, whatever filters the user has set.
        warnings.simplefilter("always")
        for step, facts in STEPS:
            say({"doing": step})
            caught.clear()
            try:
                say({"facts": facts(torch, caught)})
            except Exception as error:
                say({"unread" if asked_amiss(error) else "raised": describe(error)})
                return
        say({"complete": True})
        # After all else: it asks NVML, and one that blocks costs this fact only.
        say({"doing": "torch.cuda._device_count_nvml()"})
        say({"facts": {"nvml_device_count": nvml_device_count(torch)}})


def describe(error: BaseException) -> str:
    """ "ImportError: libcudnn.so.9: cannot open shared object file", on one line of bearable length."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}"[:600] if text else type(error).__name__


def asked_amiss(error: BaseException) -> bool:
    """Whether this file asked for what this release of torch has not or gives in another form: no fault of torch's."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    ours = trace is not None and trace.tb_frame.f_code.co_filename == __file__
    return ours and isinstance(error, (AttributeError, ImportError, TypeError, ValueError))


def build(torch: Any, caught: Any) -> Dict[str, Any]:
    """What this build of torch is."""
    version = getattr(torch, "version", None)
    return {
        "version": str(torch.__version__),
        "cuda_version": optional_text(getattr(version, "cuda", None)),
        "hip_version": optional_text(getattr(version, "hip", None)),
        "cuda_built": hasattr(torch._C, "_cuda_getDeviceCount"),
        "arch_list": architectures(torch),
        "nccl_version": nccl_version(torch),
        "distributed_backends": backends(torch),
    }


def optional_text(value: Any) -> Optional[str]:
    return None if value is None else str(value)


def architectures(torch: Any) -> List[str]:
    """What was compiled in; torch.cuda.get_arch_list() says nothing without a working GPU up to torch 2.12."""
    flags = getattr(torch._C, "_cuda_getArchFlags", None)
    return str((flags() if flags else None) or "").split()


def nccl_version(torch: Any) -> Optional[List[int]]:
    """The NCCL that torch was compiled against, None without."""
    if not hasattr(torch._C, "_nccl_version"):
        return None
    return nccl_numbers(torch.cuda.nccl.version())


def nccl_numbers(version: Any) -> List[int]:
    """(2, 28, 9, "+cuda12") without its suffix; 2708, which torch gave before 1.10, as NCCL_VERSION writes it."""
    if not isinstance(version, int):
        return [part for part in version if isinstance(part, int)]
    major = 10000 if version >= 10000 else 1000  # from 2.9 on there are two digits for the minor
    return [version // major, version % major // 100, version % 100]


def backends(torch: Any) -> List[str]:
    """Backends of torch.distributed compiled into this build."""
    distributed = torch.distributed
    if not distributed.is_available():
        return []
    names = ("nccl", "gloo", "mpi", "ucc", "xccl")
    return [name for name in names if getattr(distributed, f"is_{name}_available", bool)()]


def cuda_available(torch: Any, caught: Any) -> Dict[str, Any]:
    """Whether CUDA can be used, and torch's words for why it cannot."""
    if not hasattr(torch._C, "_cuda_getDeviceCount"):
        return {"cuda_available": False, "device_count": 0}
    available = bool(torch.cuda.is_available())
    problems = [" ".join(str(warning.message).split()) for warning in caught]
    if not available and not problems and os.path.exists("/dev/nvidiactl"):
        try:
            torch.cuda.init()
        except Exception as error:
            problems.append(describe(error))
    return {
        "cuda_available": available,
        "device_count": torch.cuda.device_count() if available else 0,
        "init_error": "" if available else "; ".join(problems)[:600],
    }


def devices(torch: Any, caught: Any) -> Dict[str, Any]:
    """The CUDA (or ROCm) devices, else the XPU devices, that torch enumerates."""
    if hasattr(torch._C, "_cuda_getDeviceCount") and torch.cuda.is_available():
        kind = "hip" if getattr(torch.version, "hip", None) else "cuda"
        return {"devices": [device(torch.cuda, index, kind) for index in range(torch.cuda.device_count())]}
    xpu = getattr(torch, "xpu", None)
    if hasattr(torch._C, "_xpu_getDeviceCount") and xpu is not None and xpu.is_available():
        devices_read = [device(xpu, index, "xpu") for index in range(xpu.device_count())]
        return {"xpu_available": True, "device_count": len(devices_read), "devices": devices_read}
    return {"devices": []}


def device(module: Any, ordinal: int, kind: str) -> Dict[str, Any]:
    """One device's properties; attributes that older versions of torch lack stay out."""
    properties = module.get_device_properties(ordinal)
    is_cuda = kind == "cuda"
    return {
        "ordinal": ordinal,
        "kind": kind,
        "name": str(properties.name),
        "uuid": uuid_of(properties),
        "compute_capability": [properties.major, properties.minor] if is_cuda else None,
        "memory_total_bytes": int(properties.total_memory),
    }


def uuid_of(properties: Any) -> str:
    """Empty where this build of torch has something else under that name."""
    uuid = str(getattr(properties, "uuid", ""))
    return uuid if uuid.isascii() and uuid.replace("-", "").replace("/", "").isalnum() else ""


def cudnn(torch: Any, caught: Any) -> Dict[str, Any]:
    """The cuDNN in use; torch raises when it found one that it was not compiled for."""
    if not hasattr(torch._C, "_cudnn"):
        return {"cudnn_version": None}
    try:
        return {"cudnn_version": torch.backends.cudnn.version()}
    except Exception as error:
        return {"cudnn_error": describe(error)}


def loaded_libraries(torch: Any, caught: Any) -> Dict[str, Any]:
    """Which files the loader really took, from the process's own memory map (Linux)."""
    loaded = {}  # type: Dict[str, str]
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as file:
            lines = file.read().splitlines()
    except OSError:
        return {}
    for line in lines:
        name = os.path.basename(line)
        for library in ("nccl", "cudnn", "cuda"):
            if name.startswith(f"lib{library}.so"):
                loaded.setdefault(library, line[line.index("/") :])
    return {"loaded_libraries": loaded}


def nvml_device_count(torch: Any) -> Optional[int]:
    """Torch's own reading of CUDA_VISIBLE_DEVICES over NVML; None when it raised or could not tell."""
    try:
        count = int(torch.cuda._device_count_nvml())
    except Exception:  # private to torch, and it raises ValueError for some values of the variable
        return None
    return count if count >= 0 else None


STEPS = (
    ("reading torch's build", build),
    ("torch.cuda.is_available()", cuda_available),
    ("torch.cuda.get_device_properties()", devices),
    ("torch.backends.cudnn.version()", cudnn),
    ("reading /proc/self/maps", loaded_libraries),
)
