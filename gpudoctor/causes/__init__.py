"""Every trouble that gpudoctor can name, one a file: `CAUSES`, by id, in the order in which a job meets them.

A file here is found by itself. Another package brings causes by an entry point of the group `gpudoctor.causes` that
names it; each of its modules may define a `CAUSE`.
"""

import importlib
import pkgutil

from gpudoctor import plugins
from gpudoctor.cause import STAGES, Cause


def _read() -> dict[str, Cause]:
    """Ours, and those of other packages whose ids are not taken."""
    own = (importlib.import_module(module.name).CAUSE for module in pkgutil.iter_modules(__path__, f"{__name__}."))
    causes = plugins.find(plugins.CAUSES, plugins.constant("CAUSE", Cause), lambda cause: [cause.id], own)
    by_stage = sorted(causes, key=lambda cause: (STAGES.index(cause.stages[0]), cause.id))
    return {cause.id: cause for cause in by_stage}


CAUSES: dict[str, Cause] = _read()

__all__ = ["CAUSES", "Cause"]
