"""The program of a rank failed."""

from gpudoctor.cause import Cause
from gpudoctor.check import Fix

CAUSE = Cause(
    id="program-error",
    title="the program of a rank failed",
    stages=("rendezvous", "communicator", "first collective", "training"),
    blame="program",
    hangs_by="gone",
    meaning=(
        "A rank ended by an exception that its program did not catch. The others wait for it in their next collective "
        "until a time-out, and their messages name the wrong rank."
    ),
    like=("rank-died", "host-out-of-memory"),
    fix=Fix("Correct what raised it: the first traceback of that rank names the file and the line."),
    variants={
        "at": Fix("Correct what raised it{place}; the other ranks only waited for {who}."),
        "worker": Fix("Repair what the DataLoader worker's traceback shows, mostly one sample of the data set."),
        "fork": Fix(
            "Start the processes by spawn (multiprocessing_context='spawn' for a DataLoader), and keep CUDA out of "
            "the data set."
        ),
        "pickle": Fix(
            "Give spawned processes and workers functions and classes of a module, not lambdas, local functions or "
            "open files."
        ),
        "main-guard": Fix("Put what the script does below: if __name__ == '__main__'."),
        "cpu-tensor": Fix(
            "Move the tensor to the rank's GPU first, or make the group for both: "
            "init_process_group('cpu:gloo,cuda:nccl')."
        ),
        "abort": Fix("Look at the lines of rank {rank} before; they say why."),
    },
    confirm="The traceback is the first that no other rank's end explains.",
    source="Python's traceback; torchrun's failure table",
)
