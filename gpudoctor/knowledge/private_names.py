"""What in a snapshot may name a person or a site, and what only looks as if it did.

Used by `gpudoctor.redact`. Whatever is not listed here as harmless counts as text that may hold a private name, so a
field that somebody adds is redacted until somebody says that it need not be.
"""

HARMLESS_FIELDS = {
    "Snapshot": {"gpudoctor", "taken_at"},
    "Nvidia": {"driver_version", "nvml_version", "kernel_module_version"},
    "Gpu": {"name", "pci_bus_id", "vbios_version", "gsp_firmware_version"},
    "MigDevice": {"name"},
    "NvLink": {"remote", "remote_pci_bus_id"},
    "PeerAccess": {"read", "nvlink"},
    "CudaDevice": {"pci_bus_id", "name"},
    "CudaAnswer": {"error_name"},
    "PciDevice": {"bus_id", "vendor", "device", "device_class", "driver", "link_speed", "link_speed_max"},
    "Accelerators": {"kernel_modules"},
    "Host": {
        "system",
        "kernel_release",
        "distribution",
        "architecture",
        "virtualization",
        "container",
        "cpu_model",
        "cpu_governors",
        "iommu_group_types",
        "fabric_manager",
    },
    "Space": {"filesystem"},
    "UsedPath": {"role"},
    "XidEvent": {"pci_bus_id"},
    "LinkLimit": {"pci_bus_id"},
    "AcsBridge": {"bus_id"},
    "RankSettings": {"network_namespace"},
    "Rendezvous": {"proxies"},
    "Training": {"chosen_by", "python_version", "packages"},
    "TorchFiles": {"version", "cuda", "hip", "xpu"},
    "TorchFacts": {"version", "cuda_version", "hip_version", "arch_list", "distributed_backends", "xla_version"},
    "TorchDevice": {"kind", "name"},
    "Library": {"version"},
    "Gid": {"type", "interface"},
    "RdmaPort": {"state", "physical_state", "link_layer", "counters", "counting"},
    "RdmaDevice": {"name", "driver", "board_id", "firmware", "pci_bus_id", "pcie_speed", "interfaces"},
    "GpuDirect": {"nv_peer_mem", "nv_peer_mem_nc", "nvidia_peermem"},
    "Address": {"family", "scope"},
    "Interface": {"name", "kind", "operstate", "master", "members", "driver", "pci_bus_id"},
    "Route": {"interface"},
    "Firewall": {"tool"},
    "PciPath": {"bus_id", "upstream", "root"},
    "Network": {"nccl_names", "pci_paths"},
    "SmokeResult": {"device"},
    "SmokeTarget": {"device"},
    "AmpResult": {"dtype", "support"},
    "AmpTarget": {"device"},
    "TrainResult": {"way", "precision", "backend", "finding"},
    "Result": {"check", "group", "title"},
    "Report": {"gpudoctor"},
    "Process": {"state", "network_namespace"},
    "NodeProcesses": {"boot_id", "network_namespace"},
    "NodeEvidence": {"boot_id", "network_namespace"},
    "Evidence": {"gpudoctor"},
    "HangReport": {"gpudoctor"},
    "Thread": {"name", "state", "waits_in"},
    "Sample": {"state", "stacks_by"},
    "Socket": {"state"},
    "Collective": {"group", "operation", "dtypes"},
    "Recorder": {"version", "backend"},
    "ProcessEvidence": {"versions", "limits"},
    "GpuUse": {"uuid"},
    "HangCause": {"cause"},
    "Survey": {"gpudoctor", "selected", "left_out"},
    "NodesProblem": {"check"},
    "Unexamined": {"id"},
    "Finding": {"id"},
    "TestResult": {"gpudoctor", "reached_by", "backend"},
    "TrainReport": {"gpudoctor", "reached_by", "backend", "torch"},
    "Member": {"device", "bus_id", "torch", "cuda", "nccl"},
    "Cell": {"way", "precision"},
    "CourseRow": {"states"},
    "FolderAnswer": {"gpudoctor", "clock"},
    "KeptRun": {"cause"},
    "UseOverTime": {"name"},
    "Explanation": {"gpudoctor"},
    "LogCause": {"cause"},
}
"""Structure -> fields that hold versions, products, PCI addresses or words of our own; they are never changed.

Fields of a `Literal` type need no entry.
"""

USER_FIELDS = {("GpuProcess", "user"), ("DeviceNode", "owner"), ("DeviceNode", "group"), ("Process", "user")}
HOST_FIELDS = {
    ("Host", "hostname"),
    ("Rendezvous", "address"),
    ("RankSettings", "master_address"),
    ("NodeProcesses", "hostname"),
    ("NodeEvidence", "name"),
    ("NodeEvidence", "hostname"),
    ("RasRank", "host"),
    ("Reached", "address"),
    ("HangReport", "hosts"),
    ("RankRow", "host"),
    ("Survey", "nodes"),
    ("Survey", "examined"),
    ("Unexamined", "nodes"),
    ("NodesProblem", "nodes"),
    ("AlikeNodes", "nodes"),
    ("TestResult", "nodes"),
    ("TrainReport", "nodes"),
    ("RunResult", "nodes"),
    ("NodeRanks", "node"),
    ("Member", "host"),
    ("Finding", "nodes"),
    ("Culprit", "nodes"),
    ("Isolation", "exclude"),
    ("IsolationRound", "groups"),
    ("FolderAnswer", "hosts"),
    ("KeptRun", "host"),
    ("KeptRun", "exclude"),
    ("LogCause", "nodes"),
    ("Explanation", "exclude"),
}
HOST_KEYED_FIELDS = {
    ("Evidence", "lost"),
    ("HangReport", "lost"),
    ("NodeEvidence", "resolved"),
    ("NodesProblem", "summaries"),
}
"""Mappings whose keys are hosts."""
GID_FIELDS = {("Gid", "gid")}
"""Addresses that checks tell apart by their form: link-local, made of an IPv4 address, or of which subnet."""
SERIAL_FIELDS = {("Gpu", "serial")}

ID_FIELDS = {("RankSettings", "run_id")}
COMMAND_FIELDS = {("Process", "command"), ("GpuProcess", "command"), ("KeptRun", "command")}

SYSTEM_ACCOUNTS = frozenset(
    """
    root nobody nogroup daemon bin sys adm tty disk lp mail news uucp man proxy kmem dialout fax voice cdrom floppy
    tape sudo audio dip www-data backup operator list irc src shadow utmp video sasl plugdev staff games users render
    input kvm sgx systemd-network systemd-resolve systemd-timesync messagebus syslog sshd polkitd avahi colord gdm
    gdm3 lightdm sddm xrdp nvidia-persistenced nvidia nvidia-dcgm dcgm nvidia-fabricmanager slurm slurmd munge docker
    containerd kubelet ubuntu debian centos fedora rocky ec2-user azureuser admin administrator vagrant jovyan vscode
    coder runner runneradmin conda linuxbrew Shared Public Default DefaultUser user wheel vglusers
    """.split()  # noqa: SIM905 - as a text it can be read and changed
)
"""Accounts and groups that distributions, clouds and containers create: they name nobody."""

COMMON_WORDS = frozenset(
    """
    localhost localdomain gpu gpus cuda nvidia amd intel torch pytorch python python3 node nodes host hosts user users
    server worker workers master login head compute main test tests data model models train training trainer root
    linux windows darwin ubuntu debian docker none null true false all yes not the and for with has have any are was
    were this that from than then too one two its can may but out error errors warning warnings info debug trace
    memory driver drivers device devices process processes version kernel system default absent missing denied home
    tmp var opt usr etc dev proc sys lib lib64 bin run mnt srv nvml nccl slurm max min off job jobs cluster conda venv
    cpu cpus tpu tesla quadro geforce rtx gtx dgx hgx h100 h200 h800 a100 a800 a30 a40 a10 b100 b200 b300 gb200 gb300
    l40 l40s l4 t4 v100 p100 gh200 loss lost reset reboot bus pci pcie link links width speed power limit limits
    temperature clock clocks index name names uuid path paths file files read reads write source value unknown failed
    timeout smoke check checks report snapshot machine service shm swap disk space free used total bytes count driver
    environment library libraries package packages container kubernetes pod job step rank local world size addr port
    x1 x2 x4 x8
    """.split()  # noqa: SIM905 - as a text it can be read and changed
)
"""Words of our reports and of the field. A host or user called so is hidden where it stands by itself as such, and
not in running text, which would become unreadable and give the name away besides."""


def is_telling(name: str) -> bool:
    """Whether a host's or user's name is distinctive enough to be replaced wherever it occurs in a text."""
    is_short = len(name) == 2 and name[0].isalpha() and name[1].isdecimal()  # n1, b2
    return (len(name) >= 3 or is_short) and name.casefold() not in COMMON_WORDS and not name.isdecimal()
