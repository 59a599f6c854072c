"""A library or module is not there."""

from gpudoctor.cause import Cause
from gpudoctor.check import Fix
from gpudoctor.command import command

CAUSE = Cause(
    id="library-missing",
    title="a library or module is not there",
    stages=("rendezvous", "communicator"),
    blame="environment",
    hangs_by="start",
    meaning=(
        "A rank imports or loads what is not installed where it runs. It ends at once; where only some nodes lack it, "
        "the others wait for their ranks."
    ),
    like=("version-mismatch",),
    fix=Fix(
        "Install it in the environment of all nodes; where only one node fails, it has another environment.",
        (command("gpudoctor check pytorch nccl"),),
    ),
    confirm="Compare the environments of a node that fails and of one that does not.",
    foreseen_by=("torch-missing", "torch-import-fails", "torch-nccl-missing"),
    source="Python's import system; ld.so(8)",
)
