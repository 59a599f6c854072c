"""Symptoms inside one machine: GPUs, peer access, shared memory, NVSwitch, the driver.

Texts as in NCCL's init.cc, graph/*.cc, transport/{p2p,shm,nvls}.cc and misc/shmutils.cc from 2.18.3 to 2.30.7.
"""

from gpudoctor.symptom import LIKELY, POSSIBLE, PROVED, Symptom

NODE = "n07:81422:81733 [2] "
INFO, WARN = NODE + "NCCL INFO ", NODE + "misc/socket.cc:118 NCCL WARN "

SYMPTOMS: tuple[Symptom, ...] = (
    Symptom(
        "ranks-share-gpu",
        pattern=(
            r"Duplicate GPU detected : rank (?P<rank>\d+) and rank (?P<other>\d+) both on CUDA device (?P<device>\w+)",
            r"(?:Multiple Ranks are using|Multiple ranks detected using) the same GPU",
        ),
        cause="duplicate-gpu",
        confidence=PROVED,
        seen=("rank {rank} and rank {other} use the same GPU ({device})", "two ranks use the same GPU"),
        versions="worded otherwise since 2.30; the third is RCCL's",
        source="NCCL init.cc, RCCL; verl#161, nccl#1241, fairchem#597",
        sample=(
            NODE + "init.cc:871 NCCL WARN Duplicate GPU detected : rank 5 and rank 4 both on CUDA device 3d000",
            WARN + "Multiple ranks detected using the same GPU on this node",
        ),
        counter=INFO + "comm 0x7a rank 5 nranks 8 cudaDev 5 busId 3d000 - Init START",
    ),
    Symptom(
        "nvlink-peer-access-off",
        pattern=r"P2P is disabled between NVLINK connected GPUs (?P<gpu>\d+) and (?P<other>\d+)",
        cause="xid-gpu-lost",
        variant="links",
        confidence=LIKELY,
        seen="GPU {gpu} and GPU {other} are joined by NVLink and may not read each other's memory",
        source="NCCL graph/paths.cc",
        sample=INFO
        + "P2P is disabled between NVLINK connected GPUs 2 and 5. This should not be the case given their link.",
        counter=INFO + "Channel 00/0 : 2[2] -> 5[5] via P2P/CUMEM",
    ),
    Symptom(
        "peer-access-off",
        pattern=(
            r"P2P is disabled between connected GPUs (?P<gpu>\d+) and (?P<other>\d+)",
            r"P2P is disabled between connected GPUs",
        ),
        role="context",
        seen="GPU {gpu} and GPU {other} may not read each other's memory over PCIe",
        source="NCCL graph/paths.cc",
        sample=INFO + "P2P is disabled between connected GPUs 1 and 0. You can repress this message with a setting.",
        counter=INFO + "Channel 00/0 : 1[1] -> 0[0] via P2P/IPC",
    ),
    Symptom(
        "peer-access-failed",
        pattern=(
            r"Could not enable P2P between dev (?P<gpu>\d+)\(=\w+\) and dev (?P<other>\d+)\(=\w+\)",
            r"failed to peer with device (?P<gpu>\d+)",
        ),
        cause="p2p-acs-iommu",
        variant="refused",
        confidence=LIKELY,
        seen="peer access to GPU {gpu} could not be opened",
        source="NCCL transport/p2p.cc",
        sample=WARN + "Could not enable P2P between dev 2(=5e000) and dev 3(=5f000)",
        counter=INFO + "Check P2P Type isAllDirectP2p 1 directMode 0",
    ),
    Symptom(
        "shared-memory-full",
        pattern=(
            r"failed to extend (?P<path>\S+) to (?P<size>\d+) bytes(?:, error: (?P<errno>[^\n(]*))?",
            r"Call to posix_fallocate failed(?: ?: ?(?P<errno>[^\n]*))?",
        ),
        unless="retrying",
        cause="shm-too-small",
        confidence=PROVED,
        seen=(
            "/dev/shm has no room for {path} of {size} bytes",
            "/dev/shm has no room for what NCCL wants to share there",
        ),
        versions="the second up to nccl 2.13",
        source="NCCL misc/shmutils.cc; nccl-tests#166, nccl#290, nccl#342, nccl#525",
        sample=(
            WARN + "Error: failed to extend /dev/shm/nccl-Yp31aD to 9637892 bytes, error: No space left on device (28)",
            NODE + "include/shm.h:31 NCCL WARN Call to posix_fallocate failed : No space left on device",
        ),
        counter=WARN + "Error: failed to extend /dev/shm/nccl-Yp31aD to 9637892 bytes, error: EINTR (4) - retrying",
    ),
    Symptom(
        "shared-memory-failed",
        pattern=(
            r"Error while (?P<action>creating|attaching to) shared memory segment (?P<path>\S*) \(size (?P<size>\d+)\)"
            r"(?:, error: (?P<errno>[^\n(]*))?",
            r"Error: (?P<action>failed to create) shared memory file (?P<path>\S+), error:? (?P<errno>[^\n(]*)",
            r"Error: (?P<action>Could not map) (?P<path>\S+) size (?P<size>\d+), error: (?P<errno>[^\n(]*)",
        ),
        cause="shm-too-small",
        confidence=LIKELY,
        seen=(
            "{action} the shared memory segment {path} of {size} bytes failed",
            "NCCL {action} the shared memory file {path} ({errno})",
        ),
        source="NCCL misc/shmutils.cc, os/linux.cc; nccl#1518",
        sample=(
            WARN + "Error while creating shared memory segment /dev/shm/nccl-q7Zk2c (size 33030528)",
            WARN + "Error: failed to create shared memory file /dev/shm/nccl-q7Zk2c, error Permission denied (13)",
        ),
        counter=INFO + "Allocated shareable buffer 0x7f0 size 33030528",
    ),
    Symptom(
        "shared-memory-removed",
        pattern=r"unlink shared memory (?P<path>\S+) failed",
        role="context",
        confidence=POSSIBLE,
        seen="the shared memory segment {path} was gone before NCCL removed it",
        source="NCCL misc/shmutils.cc",
        sample=WARN + "unlink shared memory /dev/shm/nccl-9dUq1s failed, error: No such file or directory (2)",
        counter=INFO + "MMAP allocated shareable host buffer /dev/shm/nccl-9dUq1s size 9637892",
    ),
    Symptom(
        "nvls-not-bound",
        pattern=r"Failed to bind NVLink SHARP \(NVLS\) Multicast memory of size (?P<size>\d+)"
        r"(?: at MC group \w{1,20} offset \d+)? : CUDA error "
        r"(?P<error>\d+)",
        cause="fabric-manager",
        variant="nvls",
        seen="NCCL could not bind {size} bytes of multicast memory, by which the NVSwitch reduces (CUDA error {error})",
        versions="the MC group since 2.32",
        source="NCCL transport/nvls.cc; pytorch#177472, DCGM#304",
        sample=(
            WARN
            + "Failed to bind NVLink SHARP (NVLS) Multicast memory of size 134217728 : CUDA error 401 'the operation "
            "cannot be performed in the present state'.",
            WARN
            + "Failed to bind NVLink SHARP (NVLS) Multicast memory of size 134217728 at MC group 7f20 offset 0 : CUDA "
            "error 401 'x'.",
        ),
        counter=INFO + "NVLS multicast support is available on dev 2",
    ),
    Symptom(
        "nvls-failed",
        needle=("transport/nvls.cc", "transport/multicast.cc"),
        pattern=r"transport/(?:nvls|multicast)\.cc:\d+ (?:\(\w+\) )?NCCL WARN Cuda failure (?P<error>\d+)?",
        cause="fabric-manager",
        variant="nvls",
        seen="setting up NVLink SHARP failed with CUDA error {error}",
        versions="in multicast.cc, with the function behind the line, in 2.32",
        source="NCCL transport/nvls.cc; nccl#1562, nccl#1672",
        sample=(
            NODE + "transport/nvls.cc:157 NCCL WARN Cuda failure 1 'invalid argument'",
            NODE + "transport/multicast.cc:27 (ncclMcCreate) NCCL WARN Cuda failure 801 'operation not supported'",
        ),
        counter=NODE + "transport/nvls.cc:337 NCCL INFO NVLS Bind mem 0x7f0 UC handle 0x5 MC handle 0x6 size 2097152",
    ),
    Symptom(
        "imex-not-working",
        pattern=(
            r"MNNVL \(cliqueSize (?P<size>\d+)\) is available but not working",
            r"Cuda failure (?P<error>800)\b[^\n]*operation not permitted",
        ),
        cause="fabric-manager",
        variant="imex",
        confidence=POSSIBLE,
        seen="NVLink between nodes (MNNVL) is there and cannot be used",
        source="NCCL mnnvl.cc",
        sample=WARN + "MNNVL (cliqueSize 18) is available but not working on this system. Check the IMEX channel.",
        counter=INFO + "MNNVL 1 cliqueId 7ffe cliqueSize 18 cliqueRank 3",
    ),
    Symptom(
        "gpu-out-of-memory",
        pattern=r"Cuda failure (?:2 )?'out of memory'",
        cause="gpu-out-of-memory",
        seen="the GPU had no memory left for NCCL",
        source="NCCL init.cc",
        sample=NODE + "enqueue.cc:97 NCCL WARN Cuda failure 2 'out of memory'",
        counter="torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.50 GiB.",
    ),
    Symptom(
        "peer-ordinal-invalid",
        needle="'invalid device ordinal'",
        pattern=r"transport/(?:p2p|shm)\.cc:\d{1,5} (?:\(\w+\) )?NCCL WARN Cuda failure (?:\d{1,4} )?'invalid device "
        r"ordinal'",
        cause="duplicate-gpu",
        variant="peer-hidden",
        confidence=LIKELY,
        seen="NCCL asked CUDA for the GPU of another rank, which this process does not see",
        source="nccl src/transport/p2p.cc (busIdToCudaDev, cudaDeviceCanAccessPeer)",
        sample=(
            "n07:81422:81733 [0] transport/p2p.cc:275 NCCL WARN Cuda failure 101 'invalid device ordinal'",
            NODE + "transport/p2p.cc:180 (busIdToCudaDev) NCCL WARN Cuda failure 'invalid device ordinal'",
        ),
        counter=WARN + "Cuda failure 'invalid device ordinal'",
    ),
    Symptom(
        "peer-memory-not-mapped",
        needle="transport/p2p.cc",
        pattern=r"transport/p2p\.cc:\d{1,5} (?:\(\w+\) )?NCCL WARN Cuda failure (?:\d{1,4} )?'(?P<error>"
        r"invalid argument|invalid resource handle|invalid device context|operation not supported|"
        r"peer access is not supported between these two devices|mapping of buffer object failed)'",
        cause="p2p-acs-iommu",
        variant="not-mapped",
        confidence=LIKELY,
        seen="a rank could not map the GPU memory of another one: {error}",
        source="NCCL transport/p2p.cc (ncclP2pImportShareableBuffer); tests/lab/nccl/failures.py",
        sample=NODE + "transport/p2p.cc:322 (ncclP2pImportShareableBuffer) NCCL WARN Cuda failure 'invalid argument'",
        counter=NODE + "transport/nvls.cc:157 NCCL WARN Cuda failure 1 'invalid argument'",
    ),
    Symptom(
        "device-ordinal-invalid",
        needle="'invalid device ordinal'",
        unless="transport/",
        cause="duplicate-gpu",
        variant="beyond",
        confidence=LIKELY,
        seen="a rank asked for a GPU that it does not see",
        source="CUDA's error texts",
        sample=WARN + "Cuda failure 'invalid device ordinal'",
        counter="device ordinal 7 is valid",
    ),
    Symptom(
        "driver-too-old",
        needle="CUDA driver version is insufficient",
        cause="driver-mismatch",
        seen="the CUDA driver is older than the CUDA that torch was built with",
        source="CUDA's error texts",
        sample=WARN + "Cuda failure 'CUDA driver version is insufficient for CUDA runtime version'",
        counter=INFO + "NCCL version 2.27.5+cuda12.9",
    ),
    Symptom(
        "word-of-a-setting-unknown",
        pattern=(
            r"Unrecognized (?:element|prefix) token \"(?P<word>[^\"\n]*)\" when parsing \"(?P<value>[^\"\n]*)\"",
            r"All entries except the first must have a prefix: \"(?P<value>[^\"\n]*)\"",
        ),
        cause="nccl-settings",
        variant="words",
        seen=(
            "NCCL knows no {word} in {value}, which NCCL_ALGO or NCCL_PROTO holds",
            "NCCL cannot read {value}, which NCCL_ALGO or NCCL_PROTO holds",
        ),
        versions="nccl 2.24 and later",
        source="NCCL graph/tuning.cc (parseList)",
        sample=(
            WARN + 'Unrecognized element token "rings" when parsing "rings,tree"',
            WARN + 'All entries except the first must have a prefix: "ring;tree"',
        ),
        counter=INFO + "NCCL_ALGO set by environment to ring",
    ),
    Symptom(
        "no-algorithm-left",
        pattern=(
            r"[Nn]o algorithm/protocol (?:nor symKernelId )?available for function (?P<function>\w+) with datatype "
            r"(?P<datatype>\w+)",
            r"Error : no algorithm/protocol available\s*$",
        ),
        cause="nccl-settings",
        variant="algorithms",
        seen=("NCCL has no algorithm left for {function} with {datatype}", "NCCL has no algorithm left"),
        versions="function and datatype since 2.24; 2.30 and 2.32 word it anew",
        source="NCCL enqueue.cc",
        sample=WARN
        + "Error : no algorithm/protocol available for function AllGather with datatype ncclInt8. NCCL_ALGO was "
        "set to Tree.",
        counter=INFO + "NCCL_ALGO set by environment to Tree",
    ),
    Symptom(
        "no-transport-left",
        pattern=r"No transport found for rank (?P<rank>\d+)\[\w+\] -> rank (?P<other>\d+)\[\w+\]",
        cause="nccl-settings",
        variant="transports",
        seen="NCCL has no way left between rank {rank} and rank {other}",
        source="NCCL transport.cc (selectTransport)",
        sample=WARN + "No transport found for rank 2[3b000] -> rank 5[6b000]",
        counter=INFO + "NCCL_SHM_DISABLE set by environment to 1.",
    ),
    Symptom(
        "pci-path-hidden",
        pattern=r"Could not find real path of (?P<path>\S+)",
        role="context",
        seen="NCCL could not find {path} in /sys",
        source="NCCL graph/xml.cc",
        sample=WARN + "Could not find real path of /sys/class/pci_bus/0000:3d/../../0000:3d:00.0",
        counter=INFO + "Setting affinity for GPU 2 to 0-31",
    ),
    Symptom(
        "start-slow",
        pattern=r"Init timings[^\n]*kernels (?P<seconds>[1-9]\d+(?:\.\d+)?)",
        role="context",
        seen="loading NCCL's kernels took {seconds} s",
        source="nccl#1646",
        sample=INFO + "Init timings - ncclCommInitRankConfig: rank 2 nranks 8 total 71.30 (kernels 70.11, alloc 0.42)",
        counter=INFO + "Init timings - ncclCommInitRankConfig: rank 2 nranks 8 total 1.30 (kernels 0.11, alloc 0.42)",
    ),
    Symptom(
        "peers-over-host-memory",
        pattern=r"Channel \d+ : (?P<rank>\d+)\[\w+\] -> (?P<other>\d+)\[\w+\] via SHM/",
        role="context",
        seen="rank {rank} and rank {other} talk through host memory (SHM)",
        source="NCCL transport/shm.cc",
        sample=INFO + "Channel 01 : 2[2] -> 3[3] via SHM/direct/direct",
        counter=INFO + "Channel 01 : 2[2] -> 3[3] via P2P/CUMEM",
    ),
)
