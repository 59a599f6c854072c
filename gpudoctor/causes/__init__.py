"""Every trouble that gpudoctor can name, one a file: `CAUSES`, by id, in the order in which a job meets them.

A file here is found by itself. Another package brings causes by an entry point of the group `gpudoctor.causes` that
names it; each of its modules may define a `CAUSE`.
"""

import importlib
import pkgutil
from collections.abc import Iterator
from types import ModuleType

from gpudoctor import plugins
from gpudoctor.cause import STAGES, Cause


def _sound(module: ModuleType) -> Iterator[Cause]:
    """Of another package; ours are held to this by tests. A fault would show itself only when a job has died."""
    for cause in plugins.constant("CAUSE", Cause)(module):
        for symptom in cause.symptoms:
            if any(symptom.match(sample) is None for sample in symptom.samples):
                raise ValueError(f"its symptom {symptom.id} does not find its own sample")
            if not symptom.needles:
                raise ValueError(f"its symptom {symptom.id} needs a needle: its pattern has no text of its own")
            if symptom.variant and symptom.variant not in cause.variants:
                raise ValueError(f"its symptom {symptom.id} names the variant {symptom.variant!r}, and there is none")
        yield cause


def _read() -> dict[str, Cause]:
    """Ours, and those of other packages whose ids are not taken."""
    own = (importlib.import_module(module.name).CAUSE for module in pkgutil.iter_modules(__path__, f"{__name__}."))
    causes = plugins.find(plugins.CAUSES, _sound, lambda cause: [cause.id], own)
    by_stage = sorted(causes, key=lambda cause: (STAGES.index(cause.stages[0]), cause.id))
    return {cause.id: cause for cause in by_stage}


CAUSES: dict[str, Cause]
"""Read when it is asked for: who wants one file's cause does not pay for all."""


def __getattr__(name: str) -> object:
    if name != "CAUSES":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = _read()
    return globals()[name]


__all__ = ["CAUSES", "Cause"]
