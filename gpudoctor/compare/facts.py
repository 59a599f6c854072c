"""What counts when two captures are compared, most telling first; and, by name, what does not count.

Every place of a snapshot stands in one of the two. Numbers of a moment (temperature, used memory) do not count: where
they cross what a check judges, its finding is told. A place that stands nowhere here belongs to the longest one above
it that does.
"""

from gpudoctor.compare.judging import (
    ComparedFact,
    among,
    as_set,
    bytes_limit,
    changed,
    dotted,
    fewer,
    good,
    limit,
    more,
    names,
    on_off,
    quoted,
    unit,
    unlimited,
    version,
    yes_no,
)
from gpudoctor.knowledge.wording import ranges, size
from gpudoctor.lazy import lazy_re

SIZES = 0.02
"""Of memory: firmware and ECC keep a little more at one time than at another. Our rule of thumb."""
DISTANCES = ("internal", "single", "multiple", "hostbridge", "node", "system")
FABRIC = among("0 not supported, 1 not started, 2 in progress, 3 completed")
ACTIONS = among("0 none, 1 reset, 2 reboot, 3 drain P2P, 4 drain and reset")


def answer(code: int) -> str:
    return f"error {code}" if code else "none"


_GPU = {
    "ecc_volatile.uncorrected": ComparedFact("uncorrected ECC errors since the driver was loaded", fewer, "error"),
    "remapped_rows.failed": ComparedFact("row remapping failed:", good(False), "error", yes_no),
    "remapped_rows.pending": ComparedFact("a memory row waits for a reset:", good(False), "error", yes_no),
    "retired_pages.pending": ComparedFact("a memory page waits for a reset:", good(False), "error", yes_no),
    "sram_threshold_exceeded": ComparedFact("SRAM error threshold exceeded:", good(False), "error", yes_no),
    "recovery_action": ComparedFact("recovery action that the driver asks for:", good(0), "error", ACTIONS),
    "fabric.state": ComparedFact("registration with the NVLink fabric:", good(3), "error", FABRIC),
    "fabric.is_unhealthy": ComparedFact("NVLink fabric unhealthy:", good(False), "error", yes_no),
    "fabric.health": ComparedFact("health mask of the NVLink fabric", changed),
    "fabric.status": ComparedFact("error of the registration with the NVLink fabric", good(0)),
    "nvlinks[]": ComparedFact("NVLink of", changed, gone="warning"),
    "nvlinks[].active": ComparedFact("NVLink active:", good(True), "error", yes_no),
    "name": ComparedFact("model", changed),
    "uuid": ComparedFact("another GPU sits in its place:", changed, of_machine=True),
    "pci_bus_id": ComparedFact("PCI address", changed, of_machine=True),
    "pcie_width": ComparedFact("PCIe lanes", more()),
    "pcie_width_max": ComparedFact("PCIe lanes that GPU and slot support", more()),
    "pcie_generation_max": ComparedFact("PCIe generation that GPU and slot support", more()),
    "memory_total_bytes": ComparedFact("memory", more(SIZES), shown=size),
    "ecc_aggregate.uncorrected": ComparedFact("uncorrected ECC errors of its life", fewer),
    "remapped_rows.uncorrectable": ComparedFact("rows remapped for uncorrectable errors", fewer),
    "retired_pages.double_bit": ComparedFact("pages retired for double-bit errors", fewer),
    "remapped_rows.correctable": ComparedFact("rows remapped for correctable errors", fewer, "info"),
    "retired_pages.single_bit": ComparedFact("pages retired for single-bit errors", fewer, "info"),
    "inforom_valid": ComparedFact("InfoROM valid:", good(True), shown=yes_no),
    "power_limit_watts": ComparedFact("power limit", more(0.01), shown=unit("{:.0f} W")),
    "power_limit_default_watts": ComparedFact("default power limit", more(0.01), shown=unit("{:.0f} W")),
    "clock_sm_max_mhz": ComparedFact("highest SM clock", more(), shown=unit("{} MHz")),
    "clock_memory_max_mhz": ComparedFact("highest memory clock", more(), shown=unit("{} MHz")),
    "ecc_mode": ComparedFact("ECC", changed, shown=on_off),
    "ecc_mode_pending": ComparedFact("ECC after the next reset", changed, shown=on_off),
    "mig_mode": ComparedFact("MIG", changed, shown=on_off),
    "mig_mode_pending": ComparedFact("MIG after the next reset", changed, shown=on_off),
    "mig_devices[]": ComparedFact("", changed, gone="warning"),
    "mig_devices[].name": ComparedFact("profile", changed),
    "mig_devices[].memory_total_bytes": ComparedFact("memory", more(SIZES), shown=size),
    "compute_mode": ComparedFact("compute mode", changed),
    "persistence_mode": ComparedFact("persistence mode", changed, shown=on_off),
    "vgpu_licence": ComparedFact("vGPU licence", changed),
    "compute_capability": ComparedFact("compute capability", changed, shown=dotted),
    "vbios_version": ComparedFact("VBIOS", version),
    "gsp_firmware_version": ComparedFact("GSP firmware", version),
    "numa_node": ComparedFact("NUMA node", changed),
    "cpu_affinity": ComparedFact("CPUs near it", changed, shown=ranges),
    "temperature_slowdown_celsius": ComparedFact("temperature at which it slows down", changed, shown=unit("{} C")),
    "temperature_shutdown_celsius": ComparedFact("temperature at which it shuts down", changed, shown=unit("{} C")),
    "memory_temperature_max_celsius": ComparedFact("highest memory temperature", changed, shown=unit("{} C")),
}
_PORT = {
    "": ComparedFact("", changed, gone="warning"),
    "state": ComparedFact("state", good("ACTIVE")),
    "physical_state": ComparedFact("physical state", good("LinkUp")),
    "rate_gbps": ComparedFact("rate", more(), shown=unit("{:g} Gb/s")),
    "link_layer": ComparedFact("link layer", changed),
    "gid_entries": ComparedFact("length of the GID table", changed),
    "gids[]": ComparedFact("", changed, gone="warning", of_machine=True),
    "gids[].type": ComparedFact("type", changed),
    "gids[].interface": ComparedFact("interface", changed),
}
_RDMA = {
    "": ComparedFact("RDMA device", changed, gone="error"),
    "pcie_width": ComparedFact("PCIe lanes", more()),
    "pcie_speed": ComparedFact("PCIe speed", lambda old, new: more()(_speed(old), _speed(new))),
    "firmware": ComparedFact("firmware", version),
    "board_id": ComparedFact("board", changed),
    "driver": ComparedFact("driver", changed),
    "pci_bus_id": ComparedFact("PCI address", changed),
    "numa_node": ComparedFact("NUMA node", changed),
    "is_virtual_function": ComparedFact("virtual function:", changed, shown=yes_no),
    "interfaces": ComparedFact("its interfaces", as_set, shown=names),
}
_INTERFACE = {
    "": ComparedFact("interface", changed, gone="warning"),
    "is_running": ComparedFact("has a link:", good(True), shown=yes_no),
    "is_up": ComparedFact("is up:", good(True), shown=yes_no),
    "speed_mbps": ComparedFact("speed", more(), shown=unit("{} Mb/s")),
    "mtu": ComparedFact("MTU", more()),
    "addresses[]": ComparedFact("address of", changed, gone="warning", of_machine=True),
    "kind": ComparedFact("kind", changed),
    "driver": ComparedFact("driver", changed),
    "master": ComparedFact("belongs to", changed, none="none"),
    "members": ComparedFact("members", as_set, shown=names),
    "pci_bus_id": ComparedFact("PCI address", changed),
    "numa_node": ComparedFact("NUMA node", changed),
}


def _below(place: str, facts: dict[str, ComparedFact]) -> dict[str, ComparedFact]:
    return {f"{place}.{name}" if name else place: fact for name, fact in facts.items()}


def _speed(text: str) -> float:
    """Of "32.0 GT/s PCIe"; 0 for what is no speed."""
    number = text.split(" ")[0]
    return float(number) if number.replace(".", "", 1).isdigit() else 0.0


FACTS: dict[str, ComparedFact] = {
    "nvidia.gpus[]": ComparedFact("", changed, gone="error"),
    "nvidia.driver_version": ComparedFact("driver", version, gone="error"),
    "nvidia.kernel_module_version": ComparedFact("driver", version),
    "nvidia.init_code": ComparedFact("fault of NVML:", good(0), "error", answer),
    "cuda.all.error": ComparedFact("fault of the CUDA driver:", good(0), "error", answer),
    "cuda.visible.error": ComparedFact("fault of the CUDA driver in this environment:", good(0), "error", answer),
    "accelerators.pci[]": ComparedFact("PCI device", changed, gone="error"),
    "accelerators.pci[].is_silent": ComparedFact("answers on the bus no more:", good(False), "error", yes_no),
    **_below("nvidia.gpus[]", _GPU),
    "accelerators.pci[].uncorrected_errors": ComparedFact("errors that could not be corrected", fewer),
    "accelerators.pci[].link_width": ComparedFact("PCIe lanes", more()),
    "accelerators.pci[].link_width_max": ComparedFact("PCIe lanes that device and slot support", more()),
    "accelerators.pci[].link_speed_max": ComparedFact(
        "PCIe speed that device and slot support", lambda old, new: more()(_speed(old), _speed(new))
    ),
    "accelerators.pci[].driver": ComparedFact("kernel driver", changed, gone="error", none="none"),
    "accelerators.pci[].device": ComparedFact("PCI device number", changed),
    "accelerators.pci[].model": ComparedFact("model", changed),
    "accelerators.pci[].numa_node": ComparedFact("NUMA node", changed),
    "nvidia.peers[].read": ComparedFact("peer access", good("ok")),
    "nvidia.peers[].nvlink": ComparedFact("peer access over NVLink", good("ok")),
    "nvidia.topology[].level": ComparedFact(
        "way between them", lambda old, new: "worse" if DISTANCES.index(new) > DISTANCES.index(old) else "better"
    ),
    "host.fabric_manager": ComparedFact("fabric manager", version, gone="error", none="not running"),
    "training.torch_files": ComparedFact("torch", version, gone="error"),
    "training.torch.version": ComparedFact("torch", version),
    "training.torch_files.version": ComparedFact("torch", version),
    "training.torch.cuda_available": ComparedFact("torch can use CUDA:", good(True), "error", yes_no),
    "training.torch_probe.outcome": ComparedFact("import torch", good("answered"), "error"),
    "training.torch.device_count": ComparedFact("devices that torch can use", more(), of_gpus=True),
    "cuda.visible.devices[]": ComparedFact("CUDA device that a program gets", changed, gone="warning", of_gpus=True),
    "cuda.all.devices[]": ComparedFact("CUDA device", changed, gone="warning", of_gpus=True),
    "nvidia.cuda_version": ComparedFact("newest CUDA of the driver", version, shown=dotted),
    "training.torch.cuda_version": ComparedFact("CUDA of torch", version, gone="error", none="none"),
    "training.torch_files.cuda": ComparedFact("CUDA of torch", version, gone="error", none="none"),
    "training.torch.hip_version": ComparedFact("ROCm of torch", version),
    "training.torch_files.hip": ComparedFact("ROCm of torch", version),
    "training.torch_files.xpu": ComparedFact("oneAPI of torch", version),
    "training.torch.nccl_version": ComparedFact("NCCL", version, shown=dotted, gone="warning", none="none"),
    "training.torch.cudnn_version": ComparedFact("cuDNN", version, none="none"),
    "training.torch.arch_list": ComparedFact("GPUs that torch has kernels for", as_set, shown=names),
    "training.torch.distributed_backends": ComparedFact("backends of torch.distributed", as_set, shown=names),
    "training.torch.init_error": ComparedFact("what CUDA says as torch starts it:", changed, none="nothing"),
    "training.torch.cudnn_error": ComparedFact("what torch says of cuDNN:", changed, none="nothing"),
    "training.torch.xpu_available": ComparedFact("torch can use Intel XPUs:", good(True), "error", yes_no),
    "training.torch.xla_version": ComparedFact("torch_xla", version, none="none"),
    "training.libraries[]": ComparedFact("library", changed),
    "training.libraries[].version": ComparedFact("version of the library", version),
    "training.libraries[].path": ComparedFact("path of the library", changed),
    "training.libraries[].origin": ComparedFact("who brings the library:", changed),
    "training.python": ComparedFact("training interpreter", changed),
    "training.python_version": ComparedFact("Python", version),
    "training.packages{}": ComparedFact("{key}", version, gone="warning"),
    "training.torch_pins{}": ComparedFact("torch that {key} asks for", changed),
    "training.python_probe.outcome": ComparedFact("training interpreter", good("answered"), "error"),
    **_below("network.rdma_devices[]", _RDMA),
    **_below("network.rdma_devices[].ports[]", _PORT),
    "network.rdma_nodes[]": ComparedFact("device file", changed, gone="warning"),
    "network.rdma_nodes[].readable": ComparedFact("can be read:", good(True), shown=yes_no),
    "network.rdma_nodes[].writable": ComparedFact("can be written:", good(True), shown=yes_no),
    "network.verbs_library": ComparedFact("libibverbs", changed, gone="warning", none="none"),
    "network.gpu_direct.nvidia_peermem": ComparedFact("nvidia_peermem", version, gone="warning", none="not loaded"),
    "network.gpu_direct.nv_peer_mem": ComparedFact("nv_peer_mem", version, gone="warning", none="not loaded"),
    "network.gpu_direct.nv_peer_mem_nc": ComparedFact("nv_peer_mem_nc", version, gone="warning", none="not loaded"),
    "network.gpu_direct.open_kernel_module": ComparedFact("open kernel module:", changed, shown=yes_no),
    "cuda.all.devices[].gpu_direct_rdma": ComparedFact("GPUDirect RDMA", good(True), shown=yes_no),
    "cuda.all.devices[].dma_buf": ComparedFact("DMA-BUF", good(True), shown=yes_no),
    **_below("network.interfaces[]", _INTERFACE),
    "network.net_plugins": ComparedFact("network plugins of NCCL", as_set, shown=names),
    "network.routes[]": ComparedFact("route", changed, of_machine=True),
    "network.routes[].gateway": ComparedFact("gateway of the route", changed, of_machine=True),
    "network.firewalls[]": ComparedFact("packet filter", changed),
    "network.firewalls[].drops_input": ComparedFact("drops what comes in:", good(False), shown=yes_no),
    "network.firewalls[].rules": ComparedFact("rules that drop", changed, shown=names),
    "network.ephemeral_ports": ComparedFact("ports of outgoing connections", changed, shown=names),
    "environment{}": ComparedFact("{key}", changed, shown=quoted),
    "network.nccl_files[]": ComparedFact("NCCL's settings", changed),
    "network.nccl_files[].settings{}": ComparedFact("{key} in NCCL's settings", changed, shown=quoted),
    "network.nccl_files[].settings": ComparedFact("NCCL's settings", changed),
    "network.nccl_names": ComparedFact(
        "variables that the libnccl reads", as_set, "info", shown=lambda all: str(len(all))
    ),
    "network.nccl_paths{}": ComparedFact("{key} can be opened:", good(True), shown=yes_no),
    "host.system": ComparedFact("operating system", changed),
    "host.kernel_release": ComparedFact("kernel", version),
    "host.distribution": ComparedFact("distribution", version),
    "host.architecture": ComparedFact("architecture", changed),
    "host.virtualization": ComparedFact("virtualisation", changed),
    "host.container": ComparedFact("container", changed),
    "host.is_root": ComparedFact("seen as root:", changed, shown=yes_no),
    "host.memory_total_bytes": ComparedFact("memory", more(SIZES), shown=size),
    "host.swap_total_bytes": ComparedFact("swap", changed, shown=size),
    "host.cpu_model": ComparedFact("CPU", changed),
    "host.cpus": ComparedFact("CPUs", more()),
    "host.cpus_allowed": ComparedFact(
        "CPUs that this shell may use", lambda old, new: more()(len(old), len(new)), shown=lambda all: str(len(all))
    ),
    "host.cpu_governors{}": ComparedFact('CPUs under the governor "{key}"', changed),
    "host.numa_nodes{}": ComparedFact("CPUs of NUMA node {key}", changed, shown=lambda all: str(len(all))),
    "host.shared_memory.total_bytes": ComparedFact("/dev/shm", more(SIZES), shown=size),
    "host.shared_memory.filesystem": ComparedFact("file system of /dev/shm", changed),
    "host.shared_memory.writable": ComparedFact("/dev/shm can be written:", good(True), "error", yes_no),
    "host.limits.memlock_soft_bytes": ComparedFact(
        "locked memory (ulimit -l)", unlimited(more()), shown=bytes_limit, takes_none=True
    ),
    "host.limits.memlock_hard_bytes": ComparedFact(
        "locked memory (ulimit -Hl)", unlimited(more()), shown=bytes_limit, takes_none=True
    ),
    "host.limits.open_files_soft": ComparedFact(
        "open files (ulimit -n)", unlimited(more()), shown=limit, takes_none=True
    ),
    "host.limits.open_files_hard": ComparedFact(
        "open files (ulimit -Hn)", unlimited(more()), shown=limit, takes_none=True
    ),
    "host.limits.processes_soft": ComparedFact(
        "processes (ulimit -u)", unlimited(more(SIZES)), shown=limit, takes_none=True
    ),
    "host.cgroup.memory_limit_bytes": ComparedFact(
        "memory of the cgroup", unlimited(more()), shown=bytes_limit, takes_none=True
    ),
    "host.cgroup.cpu_limit": ComparedFact("CPUs of the cgroup", unlimited(more()), shown=limit, takes_none=True),
    "host.cgroup.pids_limit": ComparedFact("processes of the cgroup", unlimited(more()), shown=limit, takes_none=True),
    "host.paths[]": ComparedFact("folder for", changed),
    "host.paths[].path": ComparedFact("folder", changed),
    "host.paths[].space.total_bytes": ComparedFact("size of its file system", more(SIZES), shown=size),
    "host.paths[].space.filesystem": ComparedFact("file system", changed),
    "host.paths[].space.writable": ComparedFact("can be written:", good(True), shown=yes_no),
    "host.clock_synchronised": ComparedFact("clock synchronised:", good(True), shown=yes_no),
    "host.kernel_command_line": ComparedFact("kernel command line", changed, shown=quoted),
    "host.iommu_group_types{}": ComparedFact("IOMMU groups of type {key}", changed),
    "host.acs_bridges[].redirects": ComparedFact(
        "ACS sends GPU to GPU traffic through the CPU:", good(False), shown=yes_no
    ),
    "accelerators.kernel_modules": ComparedFact("kernel modules of accelerators", as_set, shown=names),
    "accelerators.device_nodes[]": ComparedFact("device file", changed, gone="warning", of_gpus=True),
    "accelerators.device_nodes[].readable": ComparedFact("can be read:", good(True), shown=yes_no),
    "accelerators.device_nodes[].writable": ComparedFact("can be written:", good(True), shown=yes_no),
    "active.smoke[].result.outcome": ComparedFact("computing", good("passed"), "error"),
    "active.amp[].results[].outcome": ComparedFact("precision", good("passed"), "error"),
    "active.train[].outcome": ComparedFact("training test", good("passed"), "error"),
}
"""By place, most telling first."""

VOLATILE: dict[str, str] = {
    **dict.fromkeys(
        (
            "nvidia.gpus[].memory_used_bytes",
            "nvidia.gpus[].memory_free_bytes",
            "nvidia.gpus[].memory_reserved_bytes",
            "nvidia.gpus[].utilization_gpu_percent",
            "nvidia.gpus[].utilization_memory_percent",
            "nvidia.gpus[].processes",
            "nvidia.gpus[].temperature_celsius",
            "nvidia.gpus[].memory_temperature_celsius",
            "nvidia.gpus[].power_draw_watts",
            "nvidia.gpus[].clock_sm_mhz",
            "nvidia.gpus[].clock_memory_mhz",
            "nvidia.gpus[].clock_event_reasons",
            "nvidia.gpus[].performance_state",
            "nvidia.gpus[].fan_percent",
            "nvidia.gpus[].display_active",
            "nvidia.gpus[].pcie_generation",
            "nvidia.gpus[].mig_devices[].memory_used_bytes",
            "accelerators.pci[].link_speed",
            "host.memory_available_bytes",
            "host.swap_used_bytes",
            "host.cgroup.memory_used_bytes",
            "host.cgroup.pids_used",
            "host.shared_memory.free_bytes",
            "host.shared_memory.free_inodes",
            "host.nccl_segments",
            "host.paths[].space.free_bytes",
            "host.paths[].space.free_inodes",
            "host.clock_error_seconds",
            "host.clock_offset_seconds",
            "host.stuck_processes",
            "network.rank_settings",
            "network.rendezvous",
            "network.communicator_addresses",
            "training.torch.import_seconds",
            "active",
        ),
        "of this moment",
    ),
    **dict.fromkeys(
        (
            "nvidia.gpus[].index",
            "nvidia.gpus[].minor_number",
            "nvidia.gpus[].ecc_volatile",
            "nvidia.gpus[].pcie_replays",
            "nvidia.gpus[].nvlinks[].replay_errors",
            "nvidia.gpus[].nvlinks[].recovery_errors",
            "nvidia.gpus[].nvlinks[].crc_errors",
            "nvidia.gpus[].mig_devices[].uuid",
            "nvidia.gpus[].mig_devices[].gpu_instance",
            "nvidia.gpus[].mig_devices[].compute_instance",
            "host.uptime_seconds",
            "host.kernel_log",
            "network.rdma_devices[].uverbs",
            "network.rdma_devices[].ports[].lid",
            "network.rdma_devices[].ports[].subnet_manager_lid",
            "network.rdma_devices[].ports[].counters",
            "network.rdma_devices[].ports[].counting",
            "network.interfaces[].index",
            "network.interfaces[].operstate",
        ),
        "counted or numbered since this boot",
    ),
    **dict.fromkeys(
        (
            "schema",
            "gpudoctor",
            "taken_at",
            "origin",
            "lacks",
            "told_troubles",
            "expected",
            "training.chosen_by",
            "training.python_probe",
            "training.torch_probe",
            "host.private_pid_namespace",
            "host.limits",
        ),
        "of who looked, and how",
    ),
    **dict.fromkeys(
        (
            "host.hostname",
            "host.hostname_addresses",
            "nvidia.gpus[].serial",
            "network.interfaces[].mac",
            "network.rdma_devices[].ports[].gids[].gid",
        ),
        "names, by which things are found again or not",
    ),
    **dict.fromkeys(
        (
            "nvidia.nvml_version",
            "nvidia.attached",
            "nvidia.gpus[].nvlinks",
            "nvidia.gpus[].ecc_aggregate",
            "nvidia.gpus[].remapped_rows",
            "nvidia.gpus[].retired_pages",
            "nvidia.gpus[].fabric",
            "nvidia.peers",
            "nvidia.topology",
            "cuda",
            "accelerators.pci[].device_class",
            "accelerators.pci[].vendor",
            "accelerators.device_nodes[].mode",
            "accelerators.device_nodes[].owner",
            "accelerators.device_nodes[].group",
            "host.cgroup",
            "host.shared_memory",
            "host.acs_bridges",
            "host.paths[].space",
            "network.rdma_nodes[].mode",
            "network.rdma_nodes[].owner",
            "network.rdma_nodes[].group",
            "network.rdma_devices[].name",
            "network.gpu_direct",
            "network.interfaces[].addresses[].scope",
            "network.routes[].metric",
            "network.nccl_files[].with_return",
            "network.nccl_files[].home_of",
            "network.pci_paths",
            "training.libraries[].found_as",
            "training.torch_files.path",
            "training.torch",
        ),
        "follows from what is told",
    ),
}
"""By place, and all below it that counts nowhere: why it is no difference by itself."""
OF_A_PROCESS = lazy_re(
    r"(?:NODE_|GROUP_|LOCAL_)?RANK|(?:LOCAL_|GROUP_)?WORLD_SIZE|SLURM_\w+|PMI_\w+|OMPI_COMM_\w+|MPI_LOCALRANKID"
    r"|TORCHELASTIC_\w+|PET_RDZV_ID|MASTER_(?:ADDR|PORT)"
)
"""Variables of one job or rank."""
