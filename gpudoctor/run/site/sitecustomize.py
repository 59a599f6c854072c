"""Arms the ranks of a job that `gpudoctor run` has started: what `gpudoctor.arm()` in the script would have done.

Python imports this when it starts, for its folder is first on PYTHONPATH. It does as little as it can: it takes that
folder off the module path, waits for torch.distributed to be imported, if it ever is, and then loads armed.py by its
path (gpudoctor need not be installed there). Another sitecustomize is found and run as if this one were not there.
In a rank it comes off PYTHONPATH, so that no program that the rank starts has it, and what the rank says is kept in a
file of its own beside. Whatever goes wrong is silent: then the process is not armed. Python 2, which a script may call
too, must be able to read this file: hence its types in comments, and neither f-strings nor stars in tuples.
"""

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any  # noqa: F401 - in types in comments

HERE = os.path.dirname(os.path.abspath(__file__))
WAITED_FOR = "torch.distributed.distributed_c10d"
LAUNCHERS = (
    "torchrun",
    "accelerate",
    "deepspeed",
    "torch.distributed.run",
    "torch.distributed.launch",
    "accelerate.commands.launch",
    "deepspeed.launcher.launch",
    "deepspeed.launcher.runner",
)
"""They import torch.distributed, and are no ranks."""


LOGS = "GPUDOCTOR_RUN_LOGS"
"""A folder for what each rank says."""
RANKS = ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK")
SPAWNED = "--multiprocessing-fork"
RECORDERS = ("TORCH_NCCL_TRACE_BUFFER_SIZE", "TORCH_FR_BUFFER_SIZE")


def words():
    # type: () -> list[str]
    """Those that this process was started with."""
    try:
        return sys.orig_argv
    except AttributeError:  # before Python 3.10
        with open("/proc/self/cmdline", "rb") as file:
            return [os.fsdecode(word) for word in file.read().split(b"\0")]


def is_rank():
    # type: () -> bool
    """Whether a launcher, or multiprocessing in a rank's parent, has started this process."""
    of_step = "SLURM_PROCID" in os.environ and "SLURM_STEP_ID" in os.environ
    return of_step or any(name in os.environ for name in RANKS) or SPAWNED in words()


def is_launcher():
    # type: () -> bool
    """By the program that Python was asked to run. An operator may give a launcher a RANK: that of its node."""
    rest = iter(words()[1:])
    for word in rest:
        if word == "-m":
            return next(rest, "") in LAUNCHERS
        if word in ("-X", "-W", "--check-hash-based-pycs"):
            next(rest, "")
        elif not word.startswith("-"):
            return os.path.basename(word) in LAUNCHERS
    return False


def beside(name, file):
    # type: (str, str) -> Any
    """A module of ours by its path: gpudoctor need not be installed here."""
    import importlib.util

    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, file)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
    return sys.modules[name]


def keep_log(folder, spawned):
    # type: (str, bool) -> None
    """What this rank says is kept in a file of its own; of one that is spawned without a number, by its process id."""
    try:
        kept = beside("gpudoctor_rank_log", os.path.join(os.path.dirname(HERE), "rank_log.py"))
        name = kept.name_of(os.environ) or ("process-" + str(os.getpid()) if spawned else "")
        if name and folder and not is_launcher():
            kept.keep(folder, name)
    except Exception:
        pass


class Waiter:
    """Stands in front of the finders until the module is wanted."""

    def find_spec(self, name, path=None, target=None):
        # type: (str, Any, Any) -> Any
        """None for all others; once for that one, with a loader that arms when it has loaded."""
        if name != WAITED_FOR:
            return None
        sys.meta_path.remove(self)
        module_spec = next(
            (spec for spec in (protocol.find_spec(name, path, target) for protocol in sys.meta_path) if spec), None
        )
        loader = getattr(module_spec, "loader", None)
        if loader is not None and not is_launcher():
            load = loader.exec_module

            def load_and_arm(module):
                # type: (Any) -> None
                load(module)
                arm()

            loader.exec_module = load_and_arm
        return module_spec


def keep_collectives():
    # type: () -> None
    """The flight recorder of torch before 2.7 is off unless it is told how many entries to keep."""
    release = tuple(int(part) for part in sys.modules["torch"].__version__.split(".")[:2])
    if release < (2, 7) and not any(name in os.environ for name in RECORDERS):
        os.environ[RECORDERS[0]] = "2000"


def arm():
    # type: () -> None
    """As gpudoctor.arm(); a script that calls that too finds this one."""
    try:
        keep_collectives()
    except Exception:
        pass
    try:
        armed = beside("gpudoctor.armed", os.path.join(os.path.dirname(os.path.dirname(HERE)), "armed.py"))
        armed.arm()
        armed.count_collectives()
    except Exception:
        pass


def leave():
    # type: () -> None
    """Off the module path, and in a rank off PYTHONPATH."""
    sys.path[:] = [entry for entry in sys.path if entry != HERE]
    if is_rank() and not is_launcher():
        folder = os.environ.pop(LOGS, "")
        keep_log(folder, SPAWNED in words())
        left = [entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry != HERE]
        if left:
            os.environ["PYTHONPATH"] = os.pathsep.join(left)
        else:
            os.environ.pop("PYTHONPATH", None)


def chain():
    # type: () -> None
    """Run the sitecustomize that would have been found without us; what it raises is Python's to tell, as always."""
    spec = next((spec for spec in (protocol.find_spec(__name__, None) for protocol in sys.meta_path) if spec), None)
    if spec is None or spec.loader is None:
        return
    import importlib.util

    ours = sys.modules.get(__name__)
    module = importlib.util.module_from_spec(spec)
    sys.modules[__name__] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        if ours is not None:
            sys.modules[__name__] = ours
        raise


def chain_of_python_2():
    # type: () -> None
    """Its site module is as silent about what cannot be imported."""
    ours = sys.modules.pop(__name__)
    try:
        __import__(__name__)
    except ImportError:
        sys.modules[__name__] = ours


if __name__ == "sitecustomize" and sys.version_info[0] < 3:
    sys.path[:] = [entry for entry in sys.path if entry != HERE]
    chain_of_python_2()
elif __name__ == "sitecustomize":
    try:
        leave()
        sys.meta_path.insert(0, Waiter())
    except Exception:
        pass
    chain()
