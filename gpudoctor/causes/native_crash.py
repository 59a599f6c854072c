from gpudoctor.cause import Cause, Fix, command

CAUSE = Cause(
    id="native-crash",
    title="a rank crashed in native code",
    stages=("rendezvous", "communicator", "first collective", "training"),
    kind="signal",
    blame="environment",
    restart="not decided",
    hangs_by="gone",
    meaning=(
        "A library, an extension or a driver did what the processor refuses, and the kernel ended the rank by a "
        "signal, mostly SIGSEGV. Python raises no exception for that, and the others wait for the rank."
    ),
    like=("rank-died", "version-mismatch"),
    fix=Fix(
        "Start it with PYTHONFAULTHANDLER=1 to see the Python line that it crashed in; then update or rebuild "
        "that extension, and look for libraries that do not fit together.",
        (command("export PYTHONFAULTHANDLER=1"),),
    ),
    variants={
        "instruction": Fix(
            "The program holds an instruction that this processor does not have: a build for another kind (AVX, "
            "AVX-512, -march=native). Install a build for this one, or build it here; the stack of "
            "PYTHONFAULTHANDLER=1 names the library.",
            (command("lscpu | grep -iE 'model name|avx'"), command("export PYTHONFAULTHANDLER=1")),
        ),
        "worker": Fix(
            "Start with num_workers=0 to see the error of the DataLoader worker itself; look at dmesg for the "
            "kernel's OOM killer.",
            (command("sudo dmesg --ctime | grep -iE 'out of memory|oom-kill'"),),
        ),
    },
    confirm=(
        "The rank's exit status is 128 plus a signal, or the kernel's log names it with segfault, general protection "
        "or trap."
    ),
    source="signal(7); kernel arch/x86/mm/fault.c; Python faulthandler",
)
