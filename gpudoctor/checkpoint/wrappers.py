"""The prefixes that wrappers put before the names of parameters, and the names without them. Pure rules."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from gpudoctor.checkpoint.unreadable import quoted
from gpudoctor.knowledge.wrappers import ANYWHERE, IN_FRONT

AVERAGED = "n_averaged"
"""The counter of torch.optim.swa_utils.AveragedModel, whose parameters stand behind "module."."""
MOST_LAYERS = 16


class Cleaned(NamedTuple):
    names: dict[str, str]
    """Name -> name in a plain model, in the order of the file; without what was dropped."""
    wrappers: tuple[str, ...]
    """What was taken off: "module.", as often as it stood there; those that go anywhere first."""
    dropped: tuple[str, ...] = ()
    written_by: tuple[str, ...] = ()
    collision: str = ""
    """A name that two tensors would have; then nothing is taken off."""

    @property
    def changed(self) -> bool:
        return bool(self.wrappers or self.dropped)


def cleaned(names: Sequence[str], *, attribute: bool = False) -> Cleaned:
    """The names of a plain model. `attribute`: a Lightning module wrote them, whose one attribute is the model."""
    dropped: tuple[str, ...] = ()
    written_by: list[str] = []
    inner = list(names)
    if AVERAGED in inner and len(inner) > 1 and all(name.startswith("module.") for name in inner if name != AVERAGED):
        dropped = (AVERAGED,)
        inner.remove(AVERAGED)
    current = dict.fromkeys(inner)
    wrappers: dict[str, None] = {}
    plain = {name: _without(name, wrappers) for name in current}
    written_by += [ANYWHERE[wrapper] for wrapper in wrappers]
    fronts: list[str] = []
    for _ in range(MOST_LAYERS):
        front = next((prefix for prefix in IN_FRONT if _all_have(plain.values(), prefix)), None)
        if front is None:
            break
        fronts.append(front)
        written_by.append("an average of a model (swa_utils.AveragedModel)" if dropped else IN_FRONT[front])
        plain = {name: key[len(front) :] for name, key in plain.items()}
    if attribute:
        own = common_attribute(plain.values())
        if own:
            fronts.append(own)
            plain = {name: key[len(own) :] for name, key in plain.items()}
    twice = _first_twice(plain.values())
    if twice:
        return Cleaned({name: name for name in names}, (), collision=twice, written_by=tuple(dict.fromkeys(written_by)))
    return Cleaned(plain, (*wrappers, *fronts), dropped, tuple(dict.fromkeys(written_by)))


def _without(name: str, wrappers: dict[str, None]) -> str:
    if "_" not in name:
        return name
    for wrapper in ANYWHERE:
        if wrapper in name:
            kept = [part for part in name.split(".") if part + "." != wrapper]
            if len(kept) <= name.count("."):
                wrappers[wrapper] = None
                name = ".".join(kept)
    return name


def _all_have(names: Iterable[str], prefix: str) -> bool:
    """Of at least one name, and something stays of each."""
    every = list(names)
    return bool(every) and all(name.startswith(prefix) and len(name) > len(prefix) for name in every)


def common_attribute(names: Iterable[str]) -> str:
    """ "model." when every name stands behind it and there are several; else empty."""
    every = list(names)
    first = every[0].partition(".")[0] + "." if every else ""
    return first if len(every) > 1 and _all_have(every, first) else ""


def _first_twice(names: Iterable[str]) -> str:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return ""


def expression(wrappers: Sequence[str]) -> str:
    """Code that gives the plain name of `name`."""
    anywhere = "".join(f'.replace({quoted(wrapper)}, "")' for wrapper in wrappers if wrapper in ANYWHERE)
    front = "".join(f".removeprefix({quoted(wrapper)})" for wrapper in wrappers if wrapper not in ANYWHERE)
    return "name" + anywhere + front
