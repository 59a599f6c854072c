"""How a precision is spelled: plain torch, Lightning, accelerate and DeepSpeed, by the installed version.

Tried with torch 2.13, Lightning 2.6.6 and accelerate 1.15; the rest from the projects' release notes: torch.amp's
GradScaler came with 2.3; Lightning's "16-mixed" with 2.0, before which 16 and "bf16" meant it; DeepSpeed's sections
"fp16" and "bf16" of its JSON configuration.
"""

from collections.abc import Mapping
from typing import Literal

from gpudoctor.knowledge.superseded import Version, lightning_version, parsed

Chosen = Literal["bf16", "fp16", "fp32"]
FIRST_GRAD_SCALER = (2, 3)
"""The torch with torch.amp.GradScaler; before, there was torch.cuda.amp's, for CUDA only."""


def spelled(precision: Chosen, versions: Mapping[str, str], device_type: str = "cuda") -> dict[str, str]:
    """Framework, with the installed version where there is one -> the line or option that asks for the precision.

    `versions` maps distributions to versions; `device_type` is torch's name ("cuda" for ROCm too).
    """
    lightning = lightning_version(versions)
    return {
        named("torch", parsed(versions.get("torch", ""))): torch_lines(
            precision, parsed(versions.get("torch", "")), device_type
        ),
        named("Lightning", lightning): f"Trainer(precision={lightning_value(precision, lightning)})",
        named("accelerate", parsed(versions.get("accelerate", ""))): (
            f'Accelerator(mixed_precision="{accelerate_value(precision)}")'
        ),
        named("DeepSpeed", parsed(versions.get("deepspeed", ""))): deepspeed_section(precision),
    }


def named(framework: str, version: Version | None) -> str:
    """ "Lightning 2.6"; the name alone for what is not installed."""
    return f"{framework} {'.'.join(map(str, version[:2]))}" if version else framework


def torch_lines(precision: Chosen, version: Version | None, device_type: str = "cuda") -> str:
    """The lines of a training loop, separated by line breaks."""
    if precision == "fp32":
        return "no autocast, and no GradScaler"
    low = {"bf16": "bfloat16", "fp16": "float16"}[precision]
    lines = [f'with torch.autocast("{device_type}", dtype=torch.{low}): loss = ...']
    if precision == "fp16":
        lines.insert(0, f"scaler = {grad_scaler(version, device_type)}")
        lines.append("scaler.scale(loss).backward(); scaler.step(optimizer); scaler.update()")
    else:
        lines.append("loss.backward(); optimizer.step()")
    return "\n".join(lines)


def grad_scaler(version: Version | None, device_type: str = "cuda") -> str:
    """The constructor that this torch has and does not warn of."""
    if version is not None and version < FIRST_GRAD_SCALER:
        return "torch.cuda.amp.GradScaler()"
    return f'torch.amp.GradScaler("{device_type}")'


def lightning_value(precision: Chosen, version: Version | None) -> str:
    """The value of Trainer(precision=...), as Python: '"bf16-mixed"', before 2.0 '"bf16"' and '16'."""
    if version is not None and version < (2,):
        return {"bf16": '"bf16"', "fp16": "16", "fp32": "32"}[precision]
    return {"bf16": '"bf16-mixed"', "fp16": '"16-mixed"', "fp32": '"32-true"'}[precision]


def accelerate_value(precision: Chosen) -> str:
    """The value of mixed_precision, in Python, in `accelerate launch --mixed_precision` and in its configuration."""
    return {"bf16": "bf16", "fp16": "fp16", "fp32": "no"}[precision]


def deepspeed_section(precision: Chosen) -> str:
    """The entry of DeepSpeed's JSON configuration."""
    if precision == "fp32":
        return 'neither "fp16" nor "bf16" enabled'
    return f'"{precision}": {{"enabled": true}}'
