"""gpudoctor: is this machine ready to train? What the commands do, as functions: see docs/library.md."""

# As little as can be: `python -m gpudoctor` runs this file before it has taken the working directory off the module
# path, and a training script that calls `arm()` needs nothing else.
import sys

TYPE_CHECKING = False  # that of typing, which would be imported
if TYPE_CHECKING:
    from typing import Any

    from gpudoctor.armed import Armed as Armed, arm as arm, step as step
    from gpudoctor.devices import DevicesAnswer as DevicesAnswer
    from gpudoctor.errors import BadInput as BadInput, CannotTell as CannotTell, Error as Error, Unreached as Unreached
    from gpudoctor.explain.report import Explanation as Explanation
    from gpudoctor.fleet.survey import Survey as Survey
    from gpudoctor.hang.report import HangReport as HangReport
    from gpudoctor.launch.plan import LaunchPlan as LaunchPlan
    from gpudoctor.library import (
        bandwidth as bandwidth,
        broken_plugins as broken_plugins,
        devices as devices,
        diagnose as diagnose,
        examine as examine,
        explain as explain,
        hang as hang,
        launch_plan as launch_plan,
        launch_text as launch_text,
        lint as lint,
        load as load,
        survey as survey,
        topology as topology,
    )
    from gpudoctor.lint.report import LintReport as LintReport
    from gpudoctor.nccl.result import TestResult as TestResult
    from gpudoctor.plugins import BrokenPlugin as BrokenPlugin
    from gpudoctor.report import Report as Report
    from gpudoctor.snapshot import Snapshot as Snapshot
    from gpudoctor.topology import TopologyAnswer as TopologyAnswer

__version__ = "0.1.0"

_NAMES = {
    "armed": "arm Armed step",
    "library": "bandwidth broken_plugins devices diagnose examine explain hang launch_plan launch_text lint load"
    " survey topology",
    "errors": "BadInput CannotTell Error Unreached",
    "devices": "DevicesAnswer",
    "explain.report": "Explanation",
    "fleet.survey": "Survey",
    "hang.report": "HangReport",
    "launch.plan": "LaunchPlan",
    "lint.report": "LintReport",
    "nccl.result": "TestResult",
    "plugins": "BrokenPlugin",
    "report": "Report",
    "snapshot": "Snapshot",
    "topology": "TopologyAnswer",
}
"""What stands here, by the module that it is loaded from when it is first asked for."""
_HOMES = {name: module for module, names in _NAMES.items() for name in names.split()}
__all__ = ["__version__", *_HOMES]


def __getattr__(name: str) -> "Any":
    if name not in _HOMES:
        raise AttributeError(f"module 'gpudoctor' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"gpudoctor.{_HOMES[name]}"), name)
    # `gpudoctor.explain` is a folder and a function: whoever comes first, both are meant (`_Room`).
    return globals().setdefault(name, value)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


class _Room(type(sys)):  # type: ignore[misc] # ModuleType, without the import of types
    """A module whose name is a function's too: it can be called."""

    def __call__(self, *arguments: "Any", **options: "Any") -> "Any":
        from gpudoctor import library

        return getattr(library, self.__name__.rpartition(".")[2])(*arguments, **options)


class _Package(type(sys)):  # type: ignore[misc]
    def __setattr__(self, name: str, value: object) -> None:
        """Python sets a module here once it is imported, by whomever."""
        if _HOMES.get(name) == "library" and type(value) is type(sys):
            value.__class__ = _Room
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
