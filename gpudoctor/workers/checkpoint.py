"""Loads a checkpoint as users do, without arbitrary unpickling and without its numbers in memory, and lists it.

Runs in the training interpreter; standard library and torch only (safetensors where it is installed).
"""

import hashlib
import importlib
from typing import Any, Callable, Dict, List, Tuple

Say = Callable[[Dict[str, object]], None]


def main(say: Say, arguments: List[str]) -> None:
    """Arguments: the file, "torch" or "safetensors"."""
    path, kind = arguments
    say({"step": "import torch"})
    import torch

    say({"torch": torch.__version__, "step": "load"})
    if kind == "safetensors":
        try:
            package = importlib.import_module(
                "safetensors"
            )  # not needed for anything else, so that it has no door here
        except ImportError:
            say({"absent": "safetensors is not installed there"})
            return
        say({"safetensors": str(package.__version__)})
        with package.safe_open(path, framework="pt") as file:
            tensors = [described(name, file.get_tensor(name), False) for name in file.keys()]  # noqa: SIM118 - no dict
        say({"listing": listing(tensors), "tensors": len(tensors)})
        return
    options = {"map_location": "cpu"}  # type: Dict[str, Any]
    version = tuple(int("".join(c for c in part if c.isdigit()) or 0) for part in torch.__version__.split(".")[:2])
    if version >= (1, 13):
        options["weights_only"] = True
    else:
        say({"absent": "torch " + torch.__version__ + " has no weights_only"})
        return
    if version >= (2, 1):
        options["mmap"] = True
    state = torch.load(path, **options)
    tensors = [described(name, tensor, True) for name, tensor in state.items()]
    say({"listing": listing(tensors), "tensors": len(tensors)})


def described(name: str, tensor: Any, strides: bool) -> Tuple[str, str]:
    """A tensor in a line."""
    shape = ",".join(str(size) for size in tensor.shape)
    stride = ",".join(str(step) for step in tensor.stride()) if strides else ""
    return name, "{}\t{}\t{}\t{}\n".format(name, str(tensor.dtype).replace("torch.", ""), shape, stride)


def listing(found: List[Tuple[str, str]]) -> str:
    """The same fingerprint as gpudoctor/checkpoint/fix.py."""
    digest = hashlib.sha256()
    for _, line in sorted(found):
        digest.update(line.encode("utf-8", "surrogatepass"))
    return digest.hexdigest()
