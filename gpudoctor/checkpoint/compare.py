"""What `model.load_state_dict` says about a state dict, in torch's own words. Pure rules."""

from collections.abc import Mapping
from typing import NamedTuple

MOST_NAMES = 8
"""Of one list; torch prints all of them."""


class Difference(NamedTuple):
    missing: tuple[str, ...]
    """The model has them, the state dict does not."""
    unexpected: tuple[str, ...]
    mismatched: tuple[tuple[str, tuple[int, ...], tuple[int, ...]], ...]
    """(name, shape in the file, shape in the model)."""

    @property
    def fits(self) -> bool:
        return not (self.missing or self.unexpected or self.mismatched)


def difference(given: Mapping[str, tuple[int, ...]], model: Mapping[str, tuple[int, ...]]) -> Difference:
    """Names and shapes of a state dict against those of a model."""
    return Difference(
        tuple(name for name in model if name not in given),
        tuple(name for name in given if name not in model),
        tuple(
            (name, shape, model[name])
            for name, shape in given.items()
            if name in model and not _may_load(shape, model[name])
        ),
    )


def _may_load(shape: tuple[int, ...], wanted: tuple[int, ...]) -> bool:
    """torch takes a tensor of one element for a scalar (Module._load_from_state_dict)."""
    return shape == wanted or (wanted == () and shape == (1,))


def in_torch_words(found: Difference, model: str = "Model") -> str:
    """The text of torch's RuntimeError; empty when all fits."""
    if found.fits:
        return ""
    said = [f"Error(s) in loading state_dict for {model}:"]
    for title, names in (("Missing", found.missing), ("Unexpected", found.unexpected)):
        if names:
            shown = ", ".join(f'"{name}"' for name in names[:MOST_NAMES])
            more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
            said.append(f"\t{title} key(s) in state_dict: {shown}{more}. ")
    for name, shape, wanted in found.mismatched[:MOST_NAMES]:
        said.append(
            f"\tsize mismatch for {name}: copying a param with shape torch.Size({list(shape)}) from checkpoint, the "
            f"shape in current model is torch.Size({list(wanted)})."
        )
    if len(found.mismatched) > MOST_NAMES:
        said.append(f"\tand {len(found.mismatched) - MOST_NAMES} more of other shapes.")
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
