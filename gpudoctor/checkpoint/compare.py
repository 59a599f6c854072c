"""What `model.load_state_dict` says about a state dict, in torch's own words. Pure rules."""

from collections.abc import Mapping
from typing import NamedTuple

from gpudoctor.checkpoint.unreadable import printable

MOST_NAMES = 8
"""Of one list; torch prints all of them."""
LONGEST_NAME = 300


class KeyDifference(NamedTuple):
    missing: tuple[str, ...]
    """The model has them, the state dict does not."""
    unexpected: tuple[str, ...]
    mismatched: tuple[tuple[str, tuple[int, ...], tuple[int, ...]], ...]
    """(name, shape in the file, shape in the model)."""

    @property
    def fits(self) -> bool:
        return not (self.missing or self.unexpected or self.mismatched)


def difference(
    given: Mapping[str, tuple[int, ...]], model: Mapping[str, tuple[int, ...]], *, versions: bool = True
) -> KeyDifference:
    """Names and shapes of a state dict against those of a model. `versions`: the state dict still has its _metadata."""
    layers = {name.rpartition(".")[0] for name in given} if versions else set()
    return KeyDifference(
        tuple(name for name in model if name not in given and not _added(name, layers)),
        tuple(name for name in given if name not in model),
        tuple(
            (name, shape, model[name])
            for name, shape in given.items()
            if name in model and not _may_load(shape, model[name])
        ),
    )


def _added(name: str, layers: set[str]) -> bool:
    """Whether a batch norm adds its counter itself: it does where the state dict tells no version of the layer (before
    torch 0.4.1, or by another name; _NormBase._load_from_state_dict)."""
    layer, _, last = name.rpartition(".")
    return last == "num_batches_tracked" and layer not in layers


def _may_load(shape: tuple[int, ...], wanted: tuple[int, ...]) -> bool:
    """torch takes a tensor of one element for a scalar (Module._load_from_state_dict)."""
    return shape == wanted or (wanted == () and shape == (1,))


def in_torch_words(key_difference: KeyDifference, model: str = "Model") -> str:
    """The text of torch's RuntimeError; empty when all fits."""
    if key_difference.fits:
        return ""
    said = [f"Error(s) in loading state_dict for {model}:"]
    for title, names in (("Missing", key_difference.missing), ("Unexpected", key_difference.unexpected)):
        if names:
            shown = ", ".join(f'"{printable(name, LONGEST_NAME)}"' for name in names[:MOST_NAMES])
            more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
            said.append(f"\t{title} key(s) in state_dict: {shown}{more}. ")
    for name, shape, wanted in key_difference.mismatched[:MOST_NAMES]:
        said.append(
            f"\tsize mismatch for {printable(name, LONGEST_NAME)}: copying a param with shape "
            f"torch.Size({list(shape)}) from checkpoint, the shape in current model is torch.Size({list(wanted)})."
        )
    if len(key_difference.mismatched) > MOST_NAMES:
        said.append(f"\tand {len(key_difference.mismatched) - MOST_NAMES} more of other shapes.")
    return "\n".join(said)


def prefix_between(given: Mapping[str, object], model: Mapping[str, object]) -> tuple[str, str]:
    """(prefix to take off, prefix to put on) that makes at least nine of ten names fit; ("", "") when there is none."""
    if not given or not model:
        return "", ""
    sample = next(iter(given))
    best, best_fit = ("", ""), sum(name in model for name in given)
    if best_fit >= 0.9 * len(given):
        return best
    parts = sample.split(".")
    takes = [".".join(parts[:count]) + "." for count in range(1, min(4, len(parts)))]
    puts = list(
        dict.fromkeys(name.rpartition(tail)[0] for name in model for tail in (f".{sample}",) if name.endswith(tail))
    )
    for take, put in [(take, "") for take in takes] + [("", f"{put}.") for put in puts[:8]]:
        fit = sum(put + name[len(take) :] in model for name in given if name.startswith(take))
        if fit > best_fit:
            best, best_fit = (take, put), fit
    return best if best_fit >= 0.9 * len(given) else ("", "")
