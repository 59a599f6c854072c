"""The kernel's log: memory, crashes, stuck tasks, file systems, links, firewalls, and NVIDIA's driver."""

from collections.abc import Iterator

from gpudoctor.knowledge.gpus.xid import CATALOG
from gpudoctor.symptom import LIKELY, POSSIBLE, PROVED, Symptom

XID = r"NVRM: Xid \(PCI:(?P<address>[0-9a-fA-F:.]{4,16})\): (?P<code>{codes})\b"
TIME = "[Tue Aug 19 11:40:02 2025] "
PCI = "0000:5d:00"
BUS = r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]"
TRAINS = r"(?:python[\d.]{0,6}|pt_\w{1,12}|torchrun|ray::[^)\n]{0,40}|\w{0,12}train\w{0,12}|accelerate|deepspeed)"


def xid(codes: list[int]) -> str:
    return XID.replace("{codes}", "|".join(map(str, sorted(codes))))


def hardware() -> Iterator[Symptom]:
    """One entry a fault of the GPU that NVIDIA's catalog names."""
    faults: dict[tuple[str, str, str], list[int]] = {}
    for code, known in CATALOG.items():
        if known.level == "hardware":
            faults.setdefault((known.name, known.meaning, known.action), []).append(code)
    for (name, meaning, action), codes in faults.items():
        yield Symptom(
            f"xid-{min(codes)}",
            needle="NVRM: Xid (",
            pattern=xid(codes),
            cause="xid-gpu-lost",
            variant=action,
            seen=f"Xid {{code}} on the GPU at {{address}} ({name}): {meaning}",
            source="NVIDIA Xid catalog (knowledge/gpus/xid.py)",
            sample=f"{TIME}NVRM: Xid (PCI:{PCI}): {min(codes)}, pid='<unknown>', name=<unknown>, a text",
            counter=f"{TIME}NVRM: Xid (PCI:{PCI}): 45, pid=6177, name=python, Ch 00000010",
        )


def by_level(level: str) -> list[int]:
    return [code for code, known in CATALOG.items() if known.level == level]


SYMPTOMS: tuple[Symptom, ...] = (
    Symptom(
        "oom-kill",
        needle="Kill",
        pattern=rf"(?:[Oo]ut of memory|OOM)[^\n]{{0,40}}: Kill(?:ed)? process (?P<pid>\d+) \((?P<process>{TRAINS})\)",
        cause="host-out-of-memory",
        seen="the kernel's OOM killer ended {process} (pid {pid})",
        source="kernel mm/oom_kill.c",
        sample=(
            TIME + "Memory cgroup out of memory: Killed process 6177 (python3.11) total-vm:93111220kB, "
            "anon-rss:61442004kB, file-rss:0kB, shmem-rss:1204kB, UID:1000 pgtables:140020kB oom_score_adj:0",
            TIME + "Out of memory: Kill process 6177 (pt_main_thread) score 911 or sacrifice child",
        ),
        counter=TIME + "Out of memory: Killed process 991 (chrome) total-vm:1kB",
    ),
    Symptom(
        "oom-kill-other",
        needle="Kill",
        pattern=rf"(?:[Oo]ut of memory|OOM)[^\n]{{0,40}}: Kill(?:ed)? process (?P<pid>\d+) "
        rf"\((?!{TRAINS}\))(?P<process>[^)\n]{{1,60}})\)",
        cause="host-out-of-memory",
        role="context",
        confidence=POSSIBLE,
        seen="the kernel's OOM killer ended {process} (pid {pid}); memory was short on this node",
        source="kernel mm/oom_kill.c",
        sample=TIME + "Out of memory: Killed process 991 (chrome) total-vm:8123kB, anon-rss:4100kB",
        counter=TIME + "Out of memory: Killed process 6177 (python) total-vm:8123kB, anon-rss:4100kB",
    ),
    Symptom(
        "oom-kill-group",
        pattern=r"oom-kill:constraint=(?P<constraint>\w+)[^\n]{0,400}?task_memcg=(?P<memcg>[^,\n]{1,300}),"
        r"task=(?P<process>[^,\n]{1,60}),pid=(?P<pid>\d+)",
        cause="host-out-of-memory",
        role="context",
        confidence=POSSIBLE,
        seen="the memory of {memcg} was used up ({constraint}); {process} (pid {pid}) was chosen",
        versions="Linux >= 5.0",
        source="kernel mm/oom_kill.c",
        sample=TIME + "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=docker-9f.scope,mems_allowed=0-1,"
        "oom_memcg=/system.slice/docker-9f.scope,task_memcg=/system.slice/docker-9f.scope,task=python,pid=6177,uid=0",
        counter=TIME + "python invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0",
    ),
    *hardware(),
    Symptom(
        "xid-follows-hardware",
        pattern=XID.replace("{codes}", r"\d{1,3}")
        + r"[^\n]{0,200} caused by previous Xid (?P<earlier>"
        + "|".join(map(str, sorted(by_level("hardware"))))
        + r")\b",
        cause="xid-gpu-lost",
        variant="reboot",
        confidence=LIKELY,
        seen="a channel of the GPU at {address} was torn down because of Xid {earlier} before it, a fault of "
        "the hardware",
        source="NVIDIA Xid catalog (knowledge/gpus/xid.py)",
        sample=f"{TIME}NVRM: Xid (PCI:{PCI}): 45, pid=6177, name=python, Ch 00000010 caused by previous Xid 79",
        counter=f"{TIME}NVRM: Xid (PCI:{PCI}): 45, pid=6177, name=python, Ch 00000010",
    ),
    Symptom(
        "xid-of-program",
        pattern=xid(by_level("application")),
        cause="gpu-program-fault",
        confidence=LIKELY,
        seen="Xid {code} on the GPU at {address}: a fault of the program that ran there, or of the driver",
        source="NVIDIA Xid catalog (knowledge/gpus/xid.py)",
        sample=f"{TIME}NVRM: Xid (PCI:{PCI}): 31, pid=6177, name=python, Ch 00000010, MMU Fault: ENGINE GRAPHICS",
        counter=f"{TIME}NVRM: Xid (PCI:{PCI}): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
    ),
    Symptom(
        "xid-notice",
        pattern=xid(by_level("notice")),
        role="context",
        seen="Xid {code} on the GPU at {address}, which follows from another event or needs nothing",
        source="NVIDIA Xid catalog (knowledge/gpus/xid.py)",
        sample=f"{TIME}NVRM: Xid (PCI:{PCI}): 45, pid=6177, name=python, Ch 00000010",
        counter=f"{TIME}NVRM: Xid (PCI:{PCI}): 48, pid=6177, name=python, DBE",
    ),
    Symptom(
        "gpu-off-the-bus",
        needle=("GPU has fallen off the bus", "GPU may have fallen off", "RmInitAdapter failed"),
        unless="NVRM: Xid (",
        cause="xid-gpu-lost",
        variant="reboot",
        confidence=PROVED,
        seen="a GPU no longer answers the driver",
        source="NVIDIA's driver (nv.c)",
        sample=(
            TIME + "NVRM: GPU 0000:5d:00.0: GPU has fallen off the bus.",
            TIME + "NVRM: GPU 0000:5d:00.0: RmInitAdapter failed! (0x22:0x56:742)",
        ),
        counter=TIME + "NVRM: GPU 0000:5d:00.0: loaded",
    ),
    Symptom(
        "nvswitch-fatal",
        pattern=r"SXid \(PCI:(?P<address>[0-9a-fA-F:.]{4,16})\): (?P<code>\d{1,6}), Fatal",
        cause="xid-gpu-lost",
        variant="nvswitch",
        seen="an NVSwitch ({address}) reported the fatal error {code}",
        source="NVIDIA Fabric Manager user guide, appendix D",
        sample=TIME + "nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 20034, Fatal, Link 30 LTSSM Fault Up",
        counter=TIME
        + "nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 12028, Non-fatal, Link 30 egress non-posted PRIV error",
    ),
    Symptom(
        "driver-library-mismatch",
        needle=("NVRM: API mismatch", "Driver/library version mismatch"),
        cause="driver-mismatch",
        variant="reload",
        seen="the NVIDIA driver in the kernel is of another version than its libraries",
        source="NVIDIA's driver; NVML_ERROR_LIB_RM_VERSION_MISMATCH",
        sample=(
            TIME + "NVRM: API mismatch: the client 'nvidia-smi' (pid 6177) has the version 570.133.20, but this kernel "
            "module has the version 570.86.15.",
            "Failed to initialize NVML: Driver/library version mismatch",
        ),
        counter=TIME + "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  570.86.15",
    ),
    Symptom(
        "pcie-fatal",
        pattern=(
            rf"\(Fatal\) error (?:message )?received(?: from|:) (?P<address>{BUS})",
            rf"(?P<driver>[\w-]{{2,40}}) (?P<address>{BUS}): (?:AER: )?PCIe Bus Error: severity=Uncorrect(?:ed|able) "
            r"\(Fatal\)",
        ),
        over=r"\bAER: [Dd]evice recovery successful",
        cause="xid-gpu-lost",
        variant="pcie",
        confidence=LIKELY,
        seen=(
            "a fatal PCIe error of the device {address}, which {driver} drives",
            "a fatal PCIe error of the device {address}",
        ),
        source="kernel drivers/pci/pcie/aer.c",
        sample=(
            TIME + "pcieport 0000:5a:01.0: AER: Uncorrected (Fatal) error received: 0000:5d:00.0",
            TIME + "pcieport 0000:5a:01.0: AER: Uncorrectable (Fatal) error message received from 0000:5d:00.0",
            TIME + "nvidia 0000:5d:00.0: PCIe Bus Error: severity=Uncorrected (Fatal), type=Transaction Layer",
        ),
        counter=TIME + "pcieport 0000:5a:01.0: AER: Corrected error received: 0000:5d:00.0",
    ),
    Symptom(
        "segfault",
        pattern=rf"(?P<process>{TRAINS})\[(?P<pid>\d+)\]:? (?:segfault at|general protection|trap invalid opcode)",
        cause="native-crash",
        seen="{process} (pid {pid}) crashed in native code",
        source="kernel arch/x86/mm/fault.c, traps.c",
        sample=(
            TIME + "python3[6177]: segfault at 18 ip 00007f21aa ssp 00007ffd10 error 4 in "
            "libtorch_cpu.so[7f2188000000+1a000]",
            TIME + "traps: pt_main_thread[6177] general protection fault ip:7f21aa sp:7ffd10 error:0 in libc.so.6",
        ),
        counter=TIME + "Xorg[812]: segfault at 18 ip 00007f21aa",
    ),
    Symptom(
        "hung-task",
        pattern=r"INFO: task (?P<process>[^\n]{1,40}?):(?P<pid>\d+) blocked (?:in I/O wait )?for more than "
        r"(?P<seconds>\d+) seconds",
        cause="storage-stall",
        confidence=LIKELY,
        seen="{process} (pid {pid}) has waited in the kernel for more than {seconds} s",
        source="kernel kernel/hung_task.c",
        sample=TIME + "INFO: task python:6177 blocked for more than 245 seconds.",
        counter=TIME + "rcu: INFO: rcu_sched self-detected stall on CPU",
    ),
    Symptom(
        "nfs-not-responding",
        pattern=r"nfs: server (?P<host>\S{1,253}) not responding, (?:still trying|timed out)",
        cause="storage-stall",
        over=r"nfs: server <host> OK",
        seen="the NFS server {host} does not answer",
        source="kernel net/sunrpc/clnt.c",
        sample=TIME + "nfs: server filer2.cluster not responding, still trying",
        counter=TIME + "nfs: server filer2.cluster OK",
    ),
    Symptom(
        "lustre-lost",
        pattern=(
            r"Connection to (?P<service>\S{1,80}) \(at (?P<host>[^)\n]{1,80})\) was lost; in progress operations",
            r"LustreError: [^\n]{0,200}?(?:evicted|operation \w+ (?:to node|failed)|Request sent has (?:failed|timed "
            r"out))",
        ),
        cause="storage-stall",
        over=r"<service>: Connection restored to",
        seen="a connection to Lustre was lost",
        source="Lustre ptlrpc/import.c",
        sample=(
            TIME
            + "Lustre: work-OST0007-osc-ffff9: Connection to work-OST0007 (at 10.9.0.17@o2ib) was lost; in progress "
            "operations using this service will wait for recovery to complete",
            TIME + "LustreError: 167-0: work-MDT0000-mdc-ffff9: This client was evicted by work-MDT0000; in progress "
            "operations using this service will fail.",
        ),
        counter=TIME + "Lustre: work-OST0007: Connection restored to 10.9.0.17@o2ib",
    ),
    Symptom(
        "storage-io-error",
        pattern=(
            r"I/O error, dev (?P<device>[\w-]{1,32}), sector",
            r"EXT4-fs error \(device (?P<device>[^)\n]{1,32})\)",
            r"XFS \((?P<device>[^)\n]{1,32})\): [^\n]{0,60}(?:[Cc]orruption|I/O [Ee]rror|Shutting down)",
            r"(?:ceph: mds\d+ (?:hung|caps stale)|libceph: (?:osd|mon)\d+ [^\n]{0,60}(?:down|socket closed|session "
            r"lost))",
        ),
        cause="storage-stall",
        variant="error",
        confidence=LIKELY,
        seen=("the kernel reports errors of storage ({device})", "the kernel reports errors of storage"),
        source="kernel block/blk-core.c, fs/ext4, fs/xfs, fs/ceph",
        sample=(
            TIME + "blk_update_request: I/O error, dev nvme2n1, sector 123451 op 0x0:(READ) flags 0x0",
            TIME + "ceph: mds0 hung",
        ),
        counter=TIME + "XFS (nvme2n1): Mounting V5 Filesystem",
    ),
    Symptom(
        "rdma-link-down",
        needle=("mlx5_core ", "mlx4_en", "bnxt_en ", "ice "),
        pattern=(
            r"(?P<driver>mlx5_core|mlx4_en|bnxt_en|ice) [0-9a-f:.]{5,14}:?(?: (?P<interface>[\w@]{2,16}):)? "
            r"(?:Link down|NIC Link is Down|Link is Down)",
            r"(?P<driver>mlx5_core) [0-9a-f:.]{5,14}:?[^\n]{0,20} Port module event[^\n]{0,40}(?:[Cc]able "
            r"unplugged|[Ee]rror|[Hh]igh temperature)",
        ),
        cause="ib-link-down",
        confidence=LIKELY,
        over=r"<interface>:? (?:Link up|NIC Link is Up|Link is Up)|Port module event[^\n]{0,40}[Cc]able plugged",
        seen="a port of the network lost its link ({driver})",
        source="kernel drivers/net/ethernet/mellanox, broadcom, intel",
        sample=(
            TIME + "mlx5_core 0000:9a:00.0 ens10np0: Link down",
            TIME + "mlx5_core 0000:9a:00.0: Port module event: module 0, Cable unplugged",
        ),
        counter=TIME + "mlx5_core 0000:9a:00.0 ens10np0: Link up",
    ),
    Symptom(
        "firewall-blocked",
        pattern=(
            r"\[UFW BLOCK\] IN=(?P<interface>\S{1,16}) [^\n]{0,200}?SRC=(?P<address>\S{2,45}) "
            r"[^\n]{0,200}?DPT=(?P<port>\d{1,5})",
            r"nf_conntrack: (?:nf_conntrack: )?table full, dropping packet",
        ),
        cause="firewall-ephemeral-ports",
        confidence=POSSIBLE,
        seen="the firewall of this node dropped packets",
        source="ufw, kernel net/netfilter",
        sample=(
            TIME + "[UFW BLOCK] IN=ens3 OUT= MAC=52:54:00:aa SRC=10.2.0.7 DST=10.2.0.9 LEN=60 TOS=0x00 TTL=64 ID=1 DF "
            "PROTO=TCP SPT=41122 DPT=39001 WINDOW=64240",
            TIME + "nf_conntrack: nf_conntrack: table full, dropping packet",
        ),
        counter=TIME + "[UFW AUDIT] IN=ens3 OUT= SRC=10.2.0.7 DST=10.2.0.9 DPT=39001",
    ),
)
