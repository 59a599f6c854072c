from gpudoctor.cause import Cause, Fix, command

CAUSE = Cause(
    id="rdzv-host-mismatch",
    title="no node recognises itself as the host of the rendezvous",
    stages=("rendezvous",),
    kind="rendezvous",
    blame="environment",
    restart="after a fix",
    hangs_by="start",
    meaning=(
        "torchrun's c10d rendezvous makes that node the host whose own name or address equals the endpoint. "
        "Where none does (an alias, a service name, an address behind NAT), all nodes connect and none listens."
    ),
    like=("master-unreachable",),
    fix=Fix(
        "Give the endpoint as the head calls itself (hostname -f), or write is_host=1 into the head's --rdzv-conf "
        "and is_host=0 into the others', or take the static rendezvous (--master-addr, --node-rank).",
        (command("hostname -f"), command("hostname -I")),
    ),
    variants={
        "known host": (
            "Name the endpoint by {host}'s hostname{address}, on every node; or add --rdzv-conf is_host=1 "
            "on {host} and is_host=0 on the others."
        ),
        "absent host": (
            "Start torchrun on the endpoint's node too, or name a node of the job as the endpoint, by its hostname."
        ),
    },
    confirm=(
        "On the head compare the endpoint with its host name, full name and addresses; ss -ltn shows nobody "
        "on the port."
    ),
    source=("torch elastic/rendezvous/c10d_rendezvous_backend.py (_matches_machine_hostname); pytorch#69197"),
)
