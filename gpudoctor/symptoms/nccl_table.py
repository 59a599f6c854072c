"""NCCL's own words: the table of `gpudoctor nccl-test`, with the name of the taxonomy that each entry speaks for.

What a line looks like is written there; here is what it means for a job, and a line that shows it.
"""

import re
from typing import NamedTuple

from gpudoctor.knowledge.nccl.symptom import Rule
from gpudoctor.knowledge.nccl.symptoms import TABLE
from gpudoctor.symptom import Role, Symptom

NODE = "n07:81422:81733 [2] "
INFO, WARN = NODE + "NCCL INFO ", NODE + "misc/socket.cc:118 NCCL WARN "
COMPLETION = "NET/IB: Got completion from peer 10.4.0.9<40112> with "
MODIFY = "Call to ibv_modify_qp failed with "

ELSEWHERE = {"collective-timeout": "nccl_watchdog has it in all wordings"}
"""Entries that another family has."""


class Meaning(NamedTuple):
    cause: str
    confidence: float
    sample: str | tuple[str, ...]
    counter: str
    role: Role | None = None
    """Where it is not that of the entry's weight."""


MEANINGS: dict[str, Meaning] = {
    "ranks-share-gpu": Meaning(
        "duplicate-gpu",
        0.95,
        (
            NODE + "init.cc:871 NCCL WARN Duplicate GPU detected : rank 5 and rank 4 both on CUDA device 3d000",
            WARN + "Multiple ranks detected using the same GPU on this node",
        ),
        INFO + "comm 0x7a rank 5 nranks 8 cudaDev 5 busId 3d000 - Init START",
    ),
    "nvlink-peer-access-off": Meaning(
        "fabric-manager",
        0.6,
        INFO + "P2P is disabled between NVLINK connected GPUs 2 and 5. This should not be the case given their link.",
        INFO + "Channel 00/0 : 2[2] -> 5[5] via P2P/CUMEM",
    ),
    "peer-access-off": Meaning(
        "",
        0.3,
        INFO + "P2P is disabled between connected GPUs 1 and 0. You can repress this message with a setting.",
        INFO + "Channel 00/0 : 1[1] -> 0[0] via P2P/IPC",
    ),
    "peer-access-failed": Meaning(
        "p2p-acs-iommu",
        0.7,
        WARN + "Could not enable P2P between dev 2(=5e000) and dev 3(=5f000)",
        INFO + "Check P2P Type isAllDirectP2p 1 directMode 0",
    ),
    "shared-memory-full": Meaning(
        "shm-too-small",
        0.95,
        (
            WARN + "Error: failed to extend /dev/shm/nccl-Yp31aD to 9637892 bytes, error: No space left on device (28)",
            NODE + "include/shm.h:31 NCCL WARN Call to posix_fallocate failed : No space left on device",
        ),
        WARN + "Error: failed to extend /dev/shm/nccl-Yp31aD to 9637892 bytes, error: EINTR (4) - retrying",
    ),
    "shared-memory-failed": Meaning(
        "shm-too-small",
        0.8,
        WARN + "Error while creating shared memory segment /dev/shm/nccl-q7Zk2c (size 33030528)",
        INFO + "Allocated shareable buffer 0x7f0 size 33030528",
    ),
    "shared-memory-removed": Meaning(
        "",
        0.4,
        WARN + "unlink shared memory /dev/shm/nccl-9dUq1s failed, error: No such file or directory (2)",
        INFO + "MMAP allocated shareable host buffer /dev/shm/nccl-9dUq1s size 9637892",
    ),
    "nvls-not-bound": Meaning(
        "fabric-manager",
        0.8,
        WARN + "Failed to bind NVLink SHARP (NVLS) Multicast memory of size 134217728 : CUDA error 401 'the operation "
        "cannot be performed in the present state'.",
        INFO + "NVLS multicast support is available on dev 2",
    ),
    "nvls-failed": Meaning(
        "fabric-manager",
        0.75,
        NODE + "transport/nvls.cc:157 NCCL WARN Cuda failure 1 'invalid argument'",
        NODE + "transport/nvls.cc:337 NCCL INFO NVLS Bind mem 0x7f0 UC handle 0x5 MC handle 0x6 size 2097152",
    ),
    "imex-not-working": Meaning(
        "fabric-manager",
        0.5,
        WARN + "MNNVL (cliqueSize 18) is available but not working on this system. Check the IMEX channel.",
        INFO + "MNNVL 1 cliqueId 7ffe cliqueSize 18 cliqueRank 3",
    ),
    "gpu-out-of-memory": Meaning(
        "rank-died",
        0.8,
        NODE + "enqueue.cc:97 NCCL WARN Cuda failure 2 'out of memory'",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.50 GiB.",
    ),
    "device-ordinal-invalid": Meaning(
        "duplicate-gpu",
        0.7,
        WARN + "Cuda failure 'invalid device ordinal'",
        "device ordinal 7 is valid",
    ),
    "driver-too-old": Meaning(
        "version-mismatch",
        0.9,
        WARN + "Cuda failure 'CUDA driver version is insufficient for CUDA runtime version'",
        INFO + "NCCL version 2.27.5+cuda12.9",
    ),
    "no-algorithm-left": Meaning(
        "version-mismatch",
        0.8,
        WARN + "Error : no algorithm/protocol available for function AllGather with datatype ncclInt8. NCCL_ALGO was "
        "set to Tree.",
        INFO + "NCCL_ALGO set by environment to Tree",
    ),
    "pci-path-hidden": Meaning(
        "host-identity-collision",
        0.3,
        WARN + "Could not find real path of /sys/class/pci_bus/0000:3d/../../0000:3d:00.0",
        INFO + "Setting affinity for GPU 2 to 0-31",
        "context",
    ),
    "start-slow": Meaning(
        "",
        0.3,
        INFO + "Init timings - ncclCommInitRankConfig: rank 2 nranks 8 total 71.30 (kernels 70.11, alloc 0.42)",
        INFO + "Init timings - ncclCommInitRankConfig: rank 2 nranks 8 total 1.30 (kernels 0.11, alloc 0.42)",
    ),
    "peers-over-host-memory": Meaning(
        "",
        0.2,
        INFO + "Channel 01 : 2[2] -> 3[3] via SHM/direct/direct",
        INFO + "Channel 01 : 2[2] -> 3[3] via P2P/CUMEM",
    ),
    "no-socket-interface": Meaning(
        "wrong-nic",
        0.95,
        WARN + "Bootstrap : no socket interface found",
        INFO + "Bootstrap : Using ens3f0:10.4.0.7<0>",
    ),
    "no-listening-interface": Meaning(
        "wrong-nic",
        0.9,
        WARN + "NET/Socket : No usable listening interface found",
        INFO + "NET/Socket : Using [0]ens3f0:10.4.0.7<0>",
    ),
    "rdma-without-ip-interface": Meaning(
        "wrong-nic", 0.9, WARN + "NET/IB : No IP interface found.", INFO + "NET/IB : Using [0]mlx5_2:1/IB [RO]"
    ),
    "connect-gave-up": Meaning(
        "firewall-ephemeral-ports",
        0.6,
        (
            WARN + "socketPollConnect: Connect to 10.4.0.9<51210> returned 110(Connection timed out) errno 115",
            WARN + "socketStartConnect: exceeded retries (20000)",
        ),
        INFO + "socketStartConnect: connect to 10.4.0.9<51210> returned Connection refused, retrying (3/34)",
    ),
    "connect-retrying": Meaning(
        "",
        0.3,
        INFO + "Call to connect returned Connection refused, retrying",
        INFO + "Connected all rings",
        "context",
    ),
    "peer-closed-connection": Meaning(
        "",
        0.5,
        WARN + "socketProgress: Connection closed by remote peer n09.cluster<40932>",
        INFO + "comm 0x7a rank 5 nranks 8 - Destroy COMPLETE",
    ),
    "foreign-connection": Meaning(
        "version-mismatch",
        0.4,
        WARN + "socketFinalizeAccept from 10.4.0.250<61022>: wrong magic 4745542f20485454 != 8f1c3a",
        INFO + "Bootstrap timings total 0.06 (create 0.00, send 0.00, recv 0.02)",
    ),
    "too-many-open-files": Meaning(
        "rank-died",
        0.75,
        (WARN + "socketTryAccept: Accept failed: Too many open files", "OSError: [Errno 24] Too many open files"),
        "open files (-n) 1048576",
    ),
    "no-net-plugin-started": Meaning(
        "version-mismatch",
        0.75,
        WARN + "Failed to initialize any NET plugin",
        INFO + "Initialized NET plugin IB",
    ),
    "net-plugin-not-found": Meaning(
        "", 0.2, INFO + "NET/Plugin: Could not find: libnccl-net.so.", INFO + "NET/Plugin: Loaded net plugin AWS"
    ),
    "network-is-tcp": Meaning("", 0.2, INFO + "Using network Socket", INFO + "Using network IB"),
    "nccl-versions-differ": Meaning(
        "version-mismatch",
        0.95,
        WARN + "Mismatched NCCL version detected : rank 3 version 22705 rank 11 version 22304",
        "NCCL version 2.27.5+cuda12.9",
    ),
    "rdma-retries-exceeded": Meaning(
        "ib-link-down",
        0.55,
        (
            WARN + COMPLETION + "error 12, opcode 0, len 0, vendor err 129",
            WARN + COMPLETION + "status=IBV_WC_RETRY_EXC_ERR(12) opcode=IBV_WC_SEND(0) vendor_err=129 hca mlx5_4",
        ),
        WARN + COMPLETION + "error 5, opcode 0, len 0, vendor err 249",
    ),
    "rdma-memory-refused": Meaning(
        "gdr-broken",
        0.75,
        WARN + COMPLETION + "status=4 opcode=1 len=32768 vendor err 81 (Recv) hca mlx5_4",
        WARN + COMPLETION + "status=5 opcode=1 len=32768 vendor err 249 (Recv) hca mlx5_4",
    ),
    "rdma-receiver-not-ready": Meaning(
        "",
        0.5,
        WARN + COMPLETION + "error 13, opcode 0, len 0, vendor err 135",
        WARN + COMPLETION + "error 130, opcode 0",
    ),
    "rdma-flushed": Meaning(
        "",
        0.5,
        WARN + COMPLETION + "error 5, opcode 0, len 0, vendor err 249",
        WARN + COMPLETION + "error 12, opcode 0, len 0, vendor err 129",
    ),
    "no-rdma-device": Meaning(
        "", 0.2, INFO + "NET/IB : No device found.", INFO + "NET/IB : Using [0]mlx5_2:1/RoCE [RO]"
    ),
    "rdma-device-not-opened": Meaning(
        "ib-link-down",
        0.4,
        WARN + "NET/IB : Unable to open device mlx5_6",
        INFO + "NET/IB : Using [0]mlx5_6:1/IB",
    ),
    "verbs-library-missing": Meaning(
        "", 0.2, INFO + "Failed to open libibverbs.so[.1]", INFO + "Successfully opened libibverbs.so.1"
    ),
    "rdma-peer-unreachable": Meaning(
        "rail-cross-nic",
        0.6,
        (
            WARN + MODIFY + "error Connection timed out errno 110",
            WARN + MODIFY + "113 No route to host, on dev mlx5_4:1, curr state INIT, local GID index 3, local GID x",
        ),
        WARN + MODIFY + "error Invalid argument errno 22",
    ),
    "rdma-gid-refused": Meaning(
        "roce-gid-index",
        0.8,
        WARN + MODIFY + "22 Invalid argument, on dev mlx5_4:1, curr state INIT, next state RTR, local GID index 1",
        WARN + MODIFY + "error Connection timed out errno 110",
    ),
    "rdma-netdev-gone": Meaning(
        "ib-link-down",
        0.5,
        WARN + MODIFY + "19 No such device, on dev mlx5_4:1",
        WARN + MODIFY + "error Invalid argument errno 22",
    ),
    "locked-memory-limit": Meaning(
        "memlock-limit",
        0.9,
        (
            WARN + "Call to ibv_reg_mr_iova2 failed with error Cannot allocate memory",
            WARN + "Call to ibv_create_cq failed",
        ),
        WARN + "Call to ibv_reg_dmabuf_mr failed with error Operation not supported",
    ),
    "dma-buf-refused": Meaning(
        "gdr-broken",
        0.7,
        WARN + "Call to ibv_reg_dmabuf_mr failed with error Operation not supported",
        INFO + "DMA-BUF is available on GPU device 2",
    ),
    "rdma-port-event": Meaning(
        "ib-link-down",
        0.85,
        WARN + "NET/IB : mlx5_4:1 Got async error event: port error",
        WARN + "NET/IB : mlx5_4:1 Got async non-fatal event: GID table change (18)",
    ),
    "gpu-direct-off-for-adapter": Meaning(
        "", 0.2, INFO + "NET/IB : GPU Direct RDMA Disabled for HCA 3 'mlx5_4'", INFO + "GPU Direct RDMA Enabled for HCA"
    ),
    "gpu-direct-off-for-gpu": Meaning(
        "",
        0.2,
        INFO + "NET/IB : GPU Direct RDMA Disabled for GPU 3d000 / HCA 3 (distance 7 > 4)",
        INFO + "NET/IB : GPU Direct RDMA Enabled for GPU 3d000 / HCA 3 (distance 4 <= 4), read 1",
    ),
    "network-without-gpu-direct": Meaning(
        "",
        0.2,
        INFO + "Channel 01/0 : 3[3] -> 11[3] [send] via NET/IB/4",
        INFO + "Channel 01/0 : 3[3] -> 11[3] [send] via NET/IB/4/GDRDMA",
    ),
    "adapters-incompatible": Meaning(
        "wrong-nic",
        0.6,
        WARN + "NET/IB : Attempted to merge incompatible devices: [2]mlx5_4:1/IB and [3]mlx5_5:1/RoCE. Try selecting",
        INFO + "NET/IB : Made virtual device [4] name=mlx5_4+mlx5_5",
    ),
    "gid-types-unreadable": Meaning(
        "roce-gid-index",
        0.5,
        WARN + "NET/IB: open failed in ncclIbRoceGetVersionNum: No such file or directory",
        INFO + "NET/IB: GID index 3 is RoCE v2",
    ),
    "adapter-counts-differ": Meaning(
        "ib-link-down",
        0.6,
        WARN + "Detected mixed local Net device counts across ranks (min 7, max 8)",
        INFO + "8 local Net devices",
    ),
}

ROLES: dict[str, Role] = {
    "cause": "cause",
    "connection": "connection",
    "consequence": "consequence",
    "note": "context",
}
PATTERNS = {
    # NCCL logs harmless events of a port in the same words: a changed GID table, a client that registers again.
    "rdma-port-event": (
        r"NET/IB : (?P<device>[^\s:]+):(?P<port>\d+) (?:async fatal|Got async)[^:\n]*: "
        r"(?P<event>(?i:port error|local catastrophic error|fatal error|device fatal|QP fatal|fatal)[^\n]*)",
    ),
}
"""Where a log of a long run needs a narrower look than that of a test."""
SEEN = {
    "ranks-share-gpu": "two ranks use the same GPU",
    "shared-memory-full": "/dev/shm has no room for what NCCL wants to share there",
    "connect-gave-up": "a rank could not connect to another one: {errno}",
    "connect-retrying": "a rank is trying to connect to another one: {errno}",
}
"""Where not every wording gives the values that the table's text names."""


def adapted(rule: Rule, meaning: Meaning) -> Symptom:
    """The entry of NCCL's table as one of ours."""
    patterns = PATTERNS.get(rule.id) or tuple(pattern.pattern for pattern in rule.patterns)
    role = meaning.role or ROLES[rule.weight]
    return Symptom(
        rule.id,
        needle=rule.needles,
        pattern=patterns,
        unless=rule.unless,
        cause=meaning.cause,
        role=role,
        confidence=meaning.confidence,
        seen=SEEN.get(rule.id, rule.seen),
        fix=rule.fix,
        commands=rule.commands,
        versions=f"nccl {rule.versions}" if re.match(r"\d", rule.versions) else rule.versions,
        source=rule.source or "NCCL's source",
        sample=meaning.sample,
        counter=meaning.counter,
    )


SYMPTOMS: tuple[Symptom, ...] = tuple(adapted(rule, MEANINGS[rule.id]) for rule in TABLE if rule.id not in ELSEWHERE)
