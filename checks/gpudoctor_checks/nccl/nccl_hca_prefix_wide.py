"""An entry of NCCL_IB_HCA is the beginning of more device names than it spells.

Why it matters: entries are prefixes. mlx5_1 also takes mlx5_10 to mlx5_19, so a job that was kept to some HCAs sends
over a storage or management port as well, which other nodes may not reach.
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check
from gpudoctor.knowledge.nccl.repair import set_to
from gpudoctor.knowledge.nccl.settings import effective, evidence, where
from gpudoctor.knowledge.network.rdma_selection import parse_filter
from gpudoctor.knowledge.wording import listed


@check("nccl-hca-prefix-wide", title="NCCL_IB_HCA takes only the devices that it names")
def nccl_hca_prefix_wide(machine: Snapshot) -> Problems:
    setting = effective(machine).get("NCCL_IB_HCA")
    if setting is None or not setting.value:
        return
    chosen = parse_filter(setting.value)
    if chosen.exact:
        return
    devices = [device.name for device in machine.network.rdma_devices.value]
    named = {entry.device for entry in chosen.entries}
    # An entry that is no device's whole name ("mlx5") is a prefix on purpose.
    extra = sorted(
        device
        for device in devices
        if device not in named and any(name in devices and device.startswith(name) for name in named)
    )
    if extra:
        exact = "^=" + setting.value[1:] if chosen.excludes else "=" + setting.value
        yield Problem(
            severity="warning",
            summary=f"NCCL_IB_HCA={setting.value}{where(setting)} also {'leaves out' if chosen.excludes else 'takes'} "
            f"{listed(extra)}: its entries are prefixes",
            meaning="NCCL uses other devices than were chosen: traffic takes ports that it should not, or misses some.",
            fix=Fix('A "=" before the list makes names exact.', commands=set_to(setting, exact)),
            evidence=evidence(machine, setting, machine.network.rdma_devices),
        )
