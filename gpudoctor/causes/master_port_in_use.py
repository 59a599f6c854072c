from gpudoctor.cause import Cause, Fix, command

CAUSE = Cause(
    id="master-port-in-use",
    title="another process holds the port of the head",
    stages=("rendezvous",),
    kind="port",
    blame="environment",
    restart="after a fix",
    hangs_by="start",
    meaning=(
        "The store of rank 0 cannot listen on MASTER_PORT. The other ranks fail, or connect to a foreign "
        "process, often a rank that an earlier run left behind, and wait for it."
    ),
    fix=Fix(
        "End the process that holds the port, by its PID, or take a free port: torchrun --standalone on one node, "
        "another MASTER_PORT for every job on a shared node.",
        (command("ss -ltnp"),),
    ),
    variants={
        "known": (
            "End that process on {host} if it is a run that was left over, or start the job on another "
            "port; {free} is an example. Every node needs the same port."
        ),
        "nccl-test": (
            "End what listens there, often a job that was left behind, or take another port with --master-port."
        ),
    },
    confirm=("Look up the owner of the port on the head: it is no process of this job."),
    foreseen_by=("master-port-busy", "master-port-ephemeral"),
    source=("torch c10d socket.cpp (EADDRINUSE); mmpretrain#960"),
)
