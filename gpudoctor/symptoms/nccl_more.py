"""More of NCCL: which ranks of a communicator start, which interfaces it takes, and words of releases before 2.18."""

from gpudoctor.symptom import LIKELY, POSSIBLE, PROVED, Symptom

NODE = "gpu12:6613:6702 [1] "
VIRTUAL = r"(?:lo\d?|docker\d{0,3}|virbr\d{1,3}|veth\w{1,20}|br-\w{1,20}|cni\w{0,12}|flannel[\w.]{0,12}|cali\w{1,20})"

SYMPTOMS: tuple[Symptom, ...] = (
    Symptom(
        "nccl-init-start",
        pattern=r"rank (?P<rank>\d+) nranks (?P<world_size>\d+)(?: cudaDev (?P<gpu>\d+))?[^\n]{0,120}- Init START",
        role="context",
        seen="rank {rank} of {world_size} begins to make its NCCL communicator",
        source="NCCL init.cc, 2.18 and later",
        sample=NODE + "NCCL INFO ncclCommInitRank comm 0x55d0 rank 9 nranks 16 cudaDev 1 nvmlDev 1 busId 2a000 commId "
        "0x8a11 - Init START",
        counter=NODE + "NCCL INFO ncclCommInitRank comm 0x55d0 rank 9 nranks 16 cudaDev 1 busId 2a000 - Init COMPLETE",
    ),
    Symptom(
        "nccl-init-complete",
        pattern=r"rank (?P<rank>\d+) nranks (?P<world_size>\d+)(?: cudaDev (?P<gpu>\d+))?[^\n]{0,120}- Init COMPLETE",
        role="context",
        seen="rank {rank} of {world_size} has its NCCL communicator",
        source="NCCL init.cc",
        sample=NODE + "NCCL INFO comm 0x55d0 rank 9 nranks 16 cudaDev 1 busId 2a000 - Init COMPLETE",
        counter=NODE + "NCCL INFO comm 0x55d0 rank 9 nranks 16 cudaDev 1 busId 2a000 - Abort COMPLETE",
    ),
    Symptom(
        "nccl-aborted",
        pattern=r"rank (?P<rank>\d+) nranks (?P<world_size>\d+)[^\n]{0,120}- Abort COMPLETE",
        role="context",  # torch's process group aborts its communicators where a program that went well ends, too
        seen="rank {rank} gave its NCCL communicator up",
        source="NCCL init.cc; torch ProcessGroupNCCL.cpp, the destructor",
        sample=NODE + "NCCL INFO comm 0x55d0 rank 9 nranks 16 cudaDev 1 busId 2a000 - Abort COMPLETE",
        counter=NODE + "NCCL INFO comm 0x55d0 rank 9 nranks 16 cudaDev 1 busId 2a000 - Destroy COMPLETE",
    ),
    Symptom(
        "nccl-interface-virtual",
        needle=("NET : Using interface", "NET/Socket : Using [", "Bootstrap : Using ", "Bootstrap: Using "),
        pattern=(
            rf"(?:NET|Bootstrap) ?: Using (?:interface )?(?P<interface>{VIRTUAL}):(?P<address>[\w.:%]+)<\d+>",
            rf"NET/Socket : Using [^\n]{{0,300}}?\[\d+\](?P<interface>{VIRTUAL}):(?P<address>[\w.:%]+)<\d+>",
        ),
        cause="wrong-nic",
        role="context",
        confidence=POSSIBLE,
        seen="NCCL takes {interface} ({address}), which leads to no other node",
        source="NCCL bootstrap.cc, transport/net_socket.cc, misc/socket.cc",
        sample=(
            NODE + "NCCL INFO NET : Using interface docker0:172.17.0.1<0>",
            NODE + "NCCL INFO NET/Socket : Using [0]eno1:10.9.1.12<0> [1]virbr0:192.168.122.1<0>",
            NODE + "NCCL INFO Bootstrap : Using lo:127.0.0.1<0>",
        ),
        counter=(
            NODE + "NCCL INFO Bootstrap : Using bond0:10.9.1.12<0>",
            NODE + "NCCL INFO NET/Socket : Using [0]local1:10.1.2.3<0>",
        ),
    ),
    Symptom(
        "nccl-interface-link-local",
        needle=":fe80:",
        pattern=r"Using (?:interface |\[\d+\])?[^\n]{0,300}?(?P<interface>[\w.-]{1,16}):(?P<address>fe80:[\w:%.]+)",
        cause="wrong-nic",
        role="context",
        confidence=POSSIBLE,
        seen="NCCL takes the link-local address {address} of {interface}",
        source="NCCL misc/socket.cc",
        sample=NODE + "NCCL INFO NET/Socket : Using [0]eno2:fe80::7ec2:55ff:fe11:90a%eno2<0>",
        counter=NODE + "NCCL INFO NET/Socket : Using [0]eno2:fd00::12<0>",
    ),
    Symptom(
        "nccl-connect-failed-old",
        pattern=r"Call to connect (?:timeout|failed) ?: ?(?P<errno>[A-Z][^\n]{0,80})",
        cause="firewall-ephemeral-ports",
        role="connection",
        confidence=POSSIBLE,
        seen="a rank could not connect to another one: {errno}",
        versions="nccl < 2.18",
        source="NCCL include/socket.h of 2.3 to 2.17",
        sample=NODE + "include/socket.h:409 NCCL WARN Call to connect timeout : Connection timed out",
        counter=NODE + "NCCL INFO Call to connect returned Connection refused, retrying",
    ),
    Symptom(
        "rdma-port-event-old",
        pattern=r"NET/IB : Got async event : (?P<event>port error|[^\n]{0,40}fatal[^\n]{0,40})",
        cause="ib-link-down",
        over=r"Got async event : port active",
        seen="an RDMA port of this node reported: {event}",
        versions="nccl <= 2.20",
        source="NCCL transport/net_ib.cc; ibv_event_type_str(3)",
        sample=NODE + "transport/net_ib.cc:94 NCCL WARN NET/IB : Got async event : port error",
        counter=NODE + "transport/net_ib.cc:94 NCCL WARN NET/IB : Got async event : client reregistration",
    ),
    Symptom(
        "fabric-manager-missing",
        needle=("system not yet initialized", "CUDA_ERROR_SYSTEM_NOT_READY", "cudaErrorSystemNotReady"),
        cause="fabric-manager",
        confidence=PROVED,
        seen="CUDA is not initialised (error 802), as on machines with NVSwitch before Fabric Manager has started",
        source="CUDA error 802; NVIDIA Fabric Manager user guide",
        sample=(
            NODE + "init.cc:1733 NCCL WARN Cuda failure 'system not yet initialized'",
            "RuntimeError: Unexpected error from cudaGetDeviceCount(). Error 802: system not yet initialized",
        ),
        counter="Default process group has not been initialized, call init_process_group.",
    ),
    Symptom(
        "nccl-call-failed",
        needle=(
            "ncclSystemError: ",
            "ncclInternalError: ",
            "ncclInvalidUsage: ",
            "ncclInvalidArgument: ",
            "ncclUnhandledCudaError: ",
            "NCCL error in: ",
        ),
        pattern=(
            r"(?P<error>nccl(?:System|Internal|UnhandledCuda)Error|nccl(?:InvalidUsage|InvalidArgument)): ",
            r"NCCL error in: [^\n]{1,300}?, (?P<error>[a-z][\w ]{3,40}?)(?: \(run with|,|$)",
        ),
        role="consequence",
        seen="a call of NCCL failed ({error}); NCCL's line before it says why",
        source="torch NCCLUtils.cpp (getNcclErrorDetailStr)",
        sample=(
            "ncclSystemError: System call (e.g. socket, malloc) or external library call failed or device error.",
            "torch.distributed.DistBackendError: NCCL error in: /pytorch/torch/csrc/distributed/c10d/NCCLUtils.cpp:94, "
            "unhandled system error (run with NCCL_DEBUG=INFO for details), NCCL version 2.27.5",
        ),
        counter="ncclSuccess",
    ),
    Symptom(
        "nccl-remote-ended",
        needle=("ncclRemoteError", "remote process exited or there was a network error"),
        role="consequence",
        seen="NCCL noticed that a remote process has ended or that the network failed",
        source="torch NCCLUtils.cpp; NCCL's ncclRemoteError",
        sample=(
            "ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely.",
            "RuntimeError: NCCL error: remote process exited or there was a network error",
        ),
        counter="ncclSuccess: no error",
    ),
    Symptom(
        "nccl-file-refused",
        needle="XML ",
        pattern=(
            r"XML (?P<what>Topology|Graph) has wrong version (?P<version>-?\d+), (?P<wanted>\d+) needed",
            r"XML (?:Parse(?: error)?|Mismatch) : (?!Ignoring extra)(?P<problem>[^\n]{1,120})",
        ),
        cause="nccl-settings",
        variant="file-text",
        confidence=LIKELY,
        seen=(
            "the {what} file that NCCL was given is of version {version}, and it wants {wanted}",
            "NCCL cannot parse the XML file that it was given: {problem}",
        ),
        source="NCCL graph/xml.cc",
        sample=(
            NODE + "graph/xml.cc:394 NCCL WARN XML Topology has wrong version 2, 1 needed",
            NODE + "graph/xml.cc:210 NCCL WARN XML Parse : unterminated pci",
            NODE + "graph/xml.cc:219 NCCL WARN XML Mismatch : pci / cpu",
        ),
        counter=NODE + "NCCL INFO XML Parse : Ignoring extra attributes (max 16)",
    ),
)
