"""NCCL_IB_HCA names no device of this machine, though it has RDMA.

Why it matters: NCCL then finds no InfiniBand or RoCE device and falls back to TCP sockets. It says so at INFO only; the
job runs several times slower, and nothing fails.
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check
from gpudoctor.knowledge.nccl.fabric import ports_in_words, ports_seen, rdma_port_names
from gpudoctor.knowledge.nccl.repair import set_to
from gpudoctor.knowledge.nccl.settings import effective, evidence, set_integer, version_if_known, where
from gpudoctor.knowledge.network.rdma_selection import parse_filter, usable_ports


@check("nccl-hca-matches-nothing", title="NCCL_IB_HCA names devices of this machine")
def nccl_hca_matches_nothing(machine: Snapshot) -> Problems:
    settings = effective(machine)
    setting = settings.get("NCCL_IB_HCA")
    if setting is None or not setting.value or set_integer(settings, "NCCL_IB_DISABLE", 0):
        return
    chosen, ports = parse_filter(setting.value, version_if_known(machine)), usable_ports(machine)
    if not ports or any(chosen.takes(device.name, port.number) for device, port in ports):
        return
    devices = dict.fromkeys(device.name for device, _ in ports)
    yield Problem(
        severity="warning",
        summary=f"NCCL_IB_HCA={setting.value}{where(setting)} leaves none of "
        f"{ports_in_words(rdma_port_names(machine))}",
        meaning="NCCL falls back to TCP sockets without a word below INFO; between nodes it is several times slower.",
        fix=Fix(
            "Name the devices of this machine (those of the compute fabric), or unset it and let NCCL use all.",
            commands=set_to(setting, "=" + ",".join(devices)),
        ),
        evidence=evidence(machine, setting, ports_seen(machine)),
    )
