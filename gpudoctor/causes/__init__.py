"""Every trouble that gpudoctor can name, one a file: `CAUSES`, by id, in the order in which a job meets them.

A file here is found by itself. Another package brings causes by an entry point of the group `gpudoctor.causes` that
names it; each of its modules may define a `CAUSE`.
"""

import importlib
import pkgutil
from collections.abc import Iterator
from importlib.metadata import entry_points

from gpudoctor.cause import STAGES, Cause

GROUP = "gpudoctor.causes"


def causes_of(package: str) -> Iterator[Cause]:
    """The causes that the modules of a package define."""
    for module in pkgutil.iter_modules(importlib.import_module(package).__path__, f"{package}."):
        cause = getattr(importlib.import_module(module.name), "CAUSE", None)
        if isinstance(cause, Cause):
            yield cause


def _read() -> dict[str, Cause]:
    """Ours, and those of other packages whose ids are not taken; a package that cannot be loaded brings none."""
    causes = {cause.id: cause for cause in causes_of(__name__)}
    for entry in entry_points(group=GROUP):
        try:
            brought = list(causes_of(entry.module))
        except Exception:
            continue
        for cause in brought:
            causes.setdefault(cause.id, cause)
    by_stage = sorted(causes.values(), key=lambda cause: (STAGES.index(cause.stages[0]), cause.id))
    return {cause.id: cause for cause in by_stage}


CAUSES: dict[str, Cause] = _read()

__all__ = ["CAUSES", "Cause", "causes_of"]
