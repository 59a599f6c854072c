"""The machine has EFA devices, and NCCL has no plugin for them.

Why it matters: NCCL's own transport does not speak EFA's protocol. Without the plugin of aws-ofi-nccl
(libnccl-net.so, or libnccl-net-ofi.so) it runs over TCP: "NET/Socket" instead of "NET/OFI" in its log, at a tenth of
the bandwidth. AWS' images and its EFA installer bring the plugin; a slim image does not have it.
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check, command
from gpudoctor.knowledge.job import gpu_count
from gpudoctor.knowledge.wording import counted


@check("efa-without-plugin", title="NCCL has its plugin where there are EFA devices")
def efa_without_plugin(machine: Snapshot) -> Problems:
    devices = [device for device in machine.network.rdma_devices.value if device.driver == "efa"]
    plugins = machine.network.net_plugins
    if not devices or not gpu_count(machine) or plugins.value:
        return
    yield Problem(
        severity="warning",
        summary=f"{counted(len(devices), 'EFA device')}, and no libnccl-net.so that NCCL could load",
        meaning="NCCL falls back to TCP without a warning, at a tenth of the bandwidth.",
        evidence=(plugins, machine.network.rdma_devices),
        fix=Fix.of(
            "Install aws-ofi-nccl (AWS' EFA installer brings it), and put its folder where the loader looks.",
            command("curl -O https://efa-installer.amazonaws.com/aws-efa-installer-latest.tar.gz"),
            command("tar xf aws-efa-installer-latest.tar.gz && cd aws-efa-installer && sudo ./efa_installer.sh -y"),
            command("find /opt -name 'libnccl-net*.so'"),
        ),
    )
