"""Runs a module under the doctor's eye: `PYTHON .../workers/under_doctor.py -m MODULE ARGUMENTS...` (torchrun).

Like `python -m`, but the process ends when the doctor does: the kernel kills it when the doctor's thread that
started it dies, and it leaves when nobody can read its standard output any more. The ranks that it starts set the
same signal for themselves (__main__.py), so they follow. Nothing is imported before both are in place.
"""

import os
import sys

FOLDER = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, FOLDER)  # `python -P` leaves it out

from lifeline import end_with_the_listener, end_with_the_parent  # noqa: E402

GRACE_SECONDS = 5.0
"""For torchrun, which ends its ranks on SIGTERM."""


OF_THE_OLD_LAUNCHER = ("--nnodes=", "--node_rank=", "--nproc_per_node=", "--master_addr=", "--master_port=")


def understood(arguments, version):
    # type: (list[str], str) -> list[str]
    """torchrun's arguments without what this torch cannot take, its module first.

    Before 2.3 it makes a folder in --log_dir. Before 1.9 there is the old launcher only, which has no rendezvous.
    """
    numbers = [int(part) if part.isdigit() else 0 for part in version.split(".")[:2]]
    if numbers >= [2, 3]:
        return arguments
    if numbers >= [1, 9]:
        return [word for word in arguments if word != "--log_dir=" + os.devnull]
    kept = [word for word in arguments[1:] if word.startswith(OF_THE_OLD_LAUNCHER) or not word.startswith("--")]
    return ["torch.distributed.launch", "--use_env", *kept]


def main():
    # type: () -> None
    end_with_the_parent()
    end_with_the_listener(1, GRACE_SECONDS)  # the signal may have been set too late for it
    if len(sys.argv) < 3 or sys.argv[1] != "-m":
        sys.exit("under_doctor.py: wants -m MODULE ARGUMENTS...")
    # This folder must not shadow anything that the module imports.
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != FOLDER]
    module = sys.argv[2]
    sys.argv = sys.argv[2:]
    if module == "torch.distributed.run":
        from torch.version import __version__ as version  # torchrun imports all of torch in any case

        sys.argv = understood(sys.argv, version)
        module = sys.argv[0]
    import runpy

    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
