"""TF32: as the training program would find it set, and switching it, by the old names and the new of torch 2.9.

Reading an old name after a new one was written can raise RuntimeError (torch 2.9 and later), so both are guarded.
"""

from typing import Any, Dict

OLDEST = "torch {} has no torch.autocast, which came with 1.10"

READ = (
    "torch.backends.cuda.matmul.allow_tf32",
    "torch.backends.cudnn.allow_tf32",
    "torch.backends.fp32_precision",
    "torch.backends.cuda.matmul.fp32_precision",
    "torch.backends.cudnn.conv.fp32_precision",
    "torch.backends.cudnn.rnn.fp32_precision",
)
NEW = ("torch.backends", "torch.backends.cuda.matmul", "torch.backends.cudnn.conv", "torch.backends.cudnn.rnn")
OLD = ("torch.backends.cuda.matmul", "torch.backends.cudnn")


def as_set(torch: Any) -> Dict[str, str]:
    """Each switch that this torch has -> its value; "raises RuntimeError: ..." for one that cannot be read."""
    switches = {}  # type: Dict[str, str]
    for name in READ:
        try:
            switches[name] = str(at(torch, name))
        except AttributeError:
            continue  # this version has no such name
        except Exception as error:
            switches[name] = f"raises {type(error).__name__}: {' '.join(str(error).split())}"[:200]
    try:
        switches["torch.get_float32_matmul_precision()"] = str(torch.get_float32_matmul_precision())
    except Exception as error:
        switches["torch.get_float32_matmul_precision()"] = f"raises {type(error).__name__}"
    return switches


def at(torch: Any, name: str) -> Any:
    """The thing of a dotted name that begins with "torch"."""
    value = torch
    for part in name.split(".")[1:]:
        value = getattr(value, part)
    return value


def too_old(torch: Any) -> str:
    """Why no precision of this torch can be tried; "" where one can."""
    return "" if hasattr(torch, "autocast") else OLDEST.format(torch.__version__)


def exact_products(torch: Any) -> None:
    """IEEE float32 products, under the old API and the new."""
    if hasattr(torch, "set_float32_matmul_precision"):  # 1.12
        torch.set_float32_matmul_precision("highest")
    else:
        set_tf32(torch, False)


def set_tf32(torch: Any, on: bool) -> None:
    """Have float32 products, convolutions and recurrent nets use TF32, or IEEE float32 throughout."""
    if hasattr(torch.backends, "fp32_precision"):
        # Only the new names: an old one left in place would make the reading of either raise.
        for name in NEW:
            at(torch, name).fp32_precision = "tf32" if on else "ieee"
        return
    for name in OLD:
        at(torch, name).allow_tf32 = on
