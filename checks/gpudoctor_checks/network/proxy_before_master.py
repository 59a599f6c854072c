"""A proxy stands between the nodes of the job.

Why it matters: torch's own store connects directly, but gRPC and HTTP clients (etcd rendezvous, Ray, TPU runtimes) obey
http_proxy and its relatives. They ask the proxy for a node of the cluster, which it cannot or must not reach, and the
job waits for its members.
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check, command
from gpudoctor.knowledge.network.rendezvous_job import rendezvous


@check("proxy-before-master", title="No proxy stands before MASTER_ADDR")
def proxy_before_master(machine: Snapshot) -> Problems:
    meeting = rendezvous(machine)
    if not meeting.proxies or meeting.is_local.value:
        return
    names = ", ".join(meeting.proxies)
    except_it = command('export no_proxy={:host}"${{no_proxy:+,$no_proxy}}"', meeting.address)
    yield Problem(
        severity="info",
        summary=f"{names} applies to MASTER_ADDR {meeting.address}; no_proxy does not except it",
        meaning="A rendezvous over gRPC or HTTP (etcd, Ray, TPU) asks the proxy and waits; torch's own store does not.",
        evidence=(machine.network.rendezvous,),
        fix=Fix(
            "Except the nodes of the job from the proxy, on every node.",
            commands=(except_it, command('export NO_PROXY="$no_proxy"')),
        ),
    )
