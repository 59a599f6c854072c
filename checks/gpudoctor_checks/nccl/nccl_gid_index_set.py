"""NCCL_IB_GID_INDEX is set where NCCL chooses the GID by itself, or does not look at it.

Why it matters: from NCCL 2.21.5 on the right RoCE v2 GID is found on each port, and NVIDIA's guide says not to set it.
A fixed number is right until the table of one port or node differs; then connections fail. InfiniBand ignores it.
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check
from gpudoctor.knowledge.nccl.fabric import ports_seen
from gpudoctor.knowledge.nccl.repair import take_out
from gpudoctor.knowledge.nccl.settings import dotted, effective, evidence, nccl_version, set_integer, where
from gpudoctor.knowledge.network.rdma_selection import usable_ports

CHOOSES_SINCE = (2, 21, 5)


@check("nccl-gid-index-set", title="NCCL chooses the GID of RoCE ports by itself")
def nccl_gid_index_set(machine: Snapshot) -> Problems:
    setting = effective(machine).get("NCCL_IB_GID_INDEX")
    if setting is None or not setting.value or set_integer({setting.name: setting}, setting.name, -1) < 0:
        return
    layers = {port.link_layer.value for _, port in usable_ports(machine)}
    if not layers:
        return
    if layers == {"InfiniBand"}:
        summary = f"NCCL_IB_GID_INDEX={setting.value}{where(setting)}; the ports here are InfiniBand, which ignore it"
        meaning = "It has no effect on this machine."
    else:
        version = nccl_version(machine)
        if version < CHOOSES_SINCE:
            return  # before, it had to be set on RoCE
        summary = (
            f"NCCL_IB_GID_INDEX={setting.value}{where(setting)}; NCCL {dotted(version)} finds the RoCE v2 GID by itself"
        )
        meaning = "The number fits until a port's GID table changes; then connections to that port fail."
    yield Problem(
        severity="info",
        summary=summary,
        meaning=meaning,
        fix=Fix(
            "Take it out; NCCL_IB_ADDR_RANGE chooses among several subnets (from 2.21.5 on).",
            commands=take_out(setting),
        ),
        evidence=evidence(machine, setting, ports_seen(machine)),
    )
