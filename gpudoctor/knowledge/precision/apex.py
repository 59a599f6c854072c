"""What old tutorials say of mixed precision, and what it is today: Apex, torch.cuda.amp, Lightning's old arguments.

Sources: NVIDIA/apex issues 818 and 1214 (apex.amp is deprecated), pytorch issue 52279 (O2 has no exact equivalent), the
wheels of torch (torch.cuda.amp is deprecated in 2.4.0, not in 2.3.0), Lightning 2.6.6's precision.py (16 and "bf16" are
aliases with a warning). Lightning's arguments are knowledge/superseded.py's.
"""

from collections.abc import Mapping
from typing import NamedTuple

from gpudoctor.knowledge.precision.spelling import grad_scaler
from gpudoctor.knowledge.superseded import Version, lightning_version, parsed, superseded


class Translation(NamedTuple):
    """One line of an old tutorial."""

    old: str
    today: str
    remark: str = ""
    """What differs, or since when the old one is gone, as a sentence; empty where nothing does."""


_APEX = (
    Translation('amp.initialize(..., opt_level="O0")', "fp32: no autocast"),
    Translation(
        'amp.initialize(..., opt_level="O1")',
        "torch.autocast with dtype=torch.float16 and {scaler}; with bf16, no scaler",
        "apex.amp is deprecated, and its patching of functions breaks with torch of today.",
    ),
    Translation(
        'amp.initialize(..., opt_level="O2")',
        "torch.autocast as for O1, or FSDP's MixedPrecisionPolicy(param_dtype=torch.bfloat16)",
        "Nothing is its exact equal: O2 kept the model in fp16 and master weights in fp32; the weights under autocast "
        "stay fp32.",
    ),
    Translation(
        'amp.initialize(..., opt_level="O3")',
        "model.half(), or better model.bfloat16()",
        "With fp16 weights GradScaler raises 'Attempting to unscale FP16 gradients.'.",
    ),
    Translation("with amp.scale_loss(loss, optimizer) as scaled: scaled.backward()", "scaler.scale(loss).backward()"),
)


def translations(versions: Mapping[str, str]) -> tuple[Translation, ...]:
    """Everything, in the words of the installed versions."""
    torch_version, lightning = parsed(versions.get("torch", "")), lightning_version(versions)
    scaler = grad_scaler(torch_version)
    apex = tuple(entry._replace(today=entry.today.format(scaler=scaler)) for entry in _APEX)
    return (*apex, *_torch(torch_version), *_lightning(lightning))


def _torch(version: Version | None) -> tuple[Translation, ...]:
    if version is not None and version < (2, 4):
        return ()  # there it is no old spelling
    return (
        Translation("torch.cuda.amp.autocast()", 'torch.autocast("cuda", dtype=...)', "Deprecated since torch 2.4."),
        Translation("torch.cuda.amp.GradScaler()", 'torch.amp.GradScaler("cuda")', "Deprecated since torch 2.4."),
    )


def _lightning(version: Version | None) -> tuple[Translation, ...]:
    found = []
    for name in ("use_amp", "amp_level", "amp_backend"):
        entry = superseded("argument", name)
        if entry is not None and (entry.is_gone(version) or entry.deprecated):
            found.append(Translation(f"Trainer({name}=...)", entry.today, f"{_capital(entry.since)}."))
    if version is None or version >= (2,):
        found.append(
            Translation("Trainer(precision=16)", 'Trainer(precision="16-mixed")', "16 still works, with a warning.")
        )
        found.append(
            Translation(
                'Trainer(precision="bf16")', 'Trainer(precision="bf16-mixed")', '"bf16" still works, with a warning.'
            )
        )
    return tuple(found)


def _capital(phrase: str) -> str:
    return phrase[:1].upper() + phrase[1:]
