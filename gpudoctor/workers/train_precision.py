"""fp32, bf16 and fp16 as plain torch trains in them: autocast, and a gradient scaler for fp16."""

import contextlib
import warnings
from typing import Any

DTYPES = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}
# Not the default 65536: the tiny model's gradients must not overflow but where they are made to.
INITIAL_SCALE = 1024.0
# Relative differences to the single-process run in float32. Rounding gave at most 8e-7 in fp32, 0.031 in bf16 and
# 0.0033 in fp16 (measured: torch 2.13 on a CPU; ddp, no_sync and fsdp with 2 ranks; 300 steps, three seeds); what is
# planted in tests/test_train_faults.py gives 0.3 and more. Our rule of thumb: three times what rounding gives, or more.
TOLERANCE = {"fp32": 1e-4, "bf16": 0.1, "fp16": 0.02}


class Precision:
    """How one cell computes: `autocast()` around the forward pass; `scaler` is None but for fp16."""

    def __init__(self, torch: Any, name: str, device: Any) -> None:
        self.torch = torch
        self.name = name
        self.dtype = getattr(torch, DTYPES[name])
        self.device = device
        self.scaler = scaler(torch, device.type) if name == "fp16" else None

    def autocast(self) -> Any:
        if self.name == "fp32":
            return contextlib.nullcontext()
        return self.torch.autocast(self.device.type, dtype=self.dtype)

    def scale(self) -> float:
        """By which the loss is multiplied now."""
        return 1.0 if self.scaler is None else float(self.scaler.get_scale())


def scaler(torch: Any, kind: str) -> Any:
    """A GradScaler, under the name that this torch has it by; None when it has none for the device."""
    general = getattr(torch.amp, "GradScaler", None)  # 2.3
    if general is not None:
        return general(kind, init_scale=INITIAL_SCALE)
    return torch.cuda.amp.GradScaler(init_scale=INITIAL_SCALE) if kind == "cuda" else None


def lacking(torch: Any, name: str, device: Any) -> str:
    """Why this precision cannot be trained in on the device; "" when it can. Tries it."""
    if name not in DTYPES:
        return f"no precision is called {name!r}"
    if name == "fp32":
        return ""
    where = "a CPU" if device.type == "cpu" else torch.cuda.get_device_name(device)
    version = torch.__version__
    if name == "fp16" and scaler(torch, device.type) is None:
        return f"fp16 on {where}: torch {version} has no gradient scaler for it (torch.amp.GradScaler came with 2.3)"
    wanted = getattr(torch, DTYPES[name])
    one = torch.ones(8, 8, device=device)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with torch.autocast(device.type, dtype=wanted):
                got = (one @ one).dtype
    except RuntimeError as error:
        return f"{name} on {where}: {' '.join(str(error).split())[:200]}"
    if got is not wanted:
        return f"{name} on {where}: autocast of torch {version} computes in {str(got).replace('torch.', '')} instead"
    return ""


def remark(torch: Any, name: str, device: Any) -> str:
    """What to know of this precision on the device, though it works; "" when nothing."""
    if name == "bf16" and device.type == "cuda" and torch.version.hip is None:
        major, minor = torch.cuda.get_device_capability(device)
        if major < 8:  # facts: tensor cores know bf16 from compute capability 8.0 on
            return f"bf16 is emulated on this GPU (compute capability {major}.{minor}; 8.0 has it): it runs, slower"
    return ""
