"""Every trouble that gpudoctor can name, one a file: `CAUSES`, by id, in the order in which a job meets them."""

import importlib
import pkgutil

from gpudoctor.cause import STAGES, Cause


def _read() -> dict[str, Cause]:
    found: list[Cause] = []
    for module in pkgutil.iter_modules(__path__, f"{__name__}."):
        found.append(importlib.import_module(module.name).CAUSE)
    found.sort(key=lambda cause: (STAGES.index(cause.stages[0]), cause.id))
    return {cause.id: cause for cause in found}


CAUSES: dict[str, Cause] = _read()

__all__ = ["CAUSES", "Cause"]
