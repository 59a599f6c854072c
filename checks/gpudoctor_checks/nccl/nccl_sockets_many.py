"""NCCL_SOCKET_NTHREADS times NCCL_NSOCKS_PERTHREAD is more than NCCL allows.

Why it matters: NCCL opens at most 16 threads and 64 sockets for each connection, and lowers the numbers by itself. The
values that stand in the script are then not those that the job runs with.
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check
from gpudoctor.knowledge.nccl.repair import set_to
from gpudoctor.knowledge.nccl.settings import effective, evidence, set_integer

MOST_THREADS, MOST_SOCKETS = 16, 64  # MAX_THREADS and MAX_SOCKETS of transport/net_socket.cc, 2.4.8 to 2.30.7


@check("nccl-sockets-many", title="NCCL's threads and sockets are within its limits")
def nccl_sockets_many(machine: Snapshot) -> Problems:
    settings = effective(machine)
    threads = set_integer(settings, "NCCL_SOCKET_NTHREADS", 1)
    sockets = set_integer(settings, "NCCL_NSOCKS_PERTHREAD", 1)
    if threads <= MOST_THREADS and threads * sockets <= MOST_SOCKETS:
        return
    lowered = max(1, min(threads, MOST_THREADS))
    fitting = {"NCCL_SOCKET_NTHREADS": lowered, "NCCL_NSOCKS_PERTHREAD": max(1, min(sockets, MOST_SOCKETS // lowered))}
    commands = [set_to(settings[name], str(value)) for name, value in fitting.items() if name in settings]
    yield Problem(
        severity="info",
        summary=f"{threads} threads with {sockets} sockets each make {threads * sockets}; NCCL allows {MOST_THREADS} "
        f"threads and {MOST_SOCKETS} sockets",
        meaning="NCCL lowers them by itself and warns; more threads also cost CPU that data loaders want.",
        fix=Fix("Write what NCCL would use.", commands=tuple(line for lines in commands for line in lines)),
        evidence=evidence(machine, *(settings[name] for name in fitting if name in settings)),
    )
