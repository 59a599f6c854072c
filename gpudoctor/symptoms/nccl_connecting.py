"""Symptoms of finding interfaces and connecting over TCP: bootstrap, NET/Socket.

Texts as in NCCL's misc/socket.cc, os/linux.cc, bootstrap.cc and transport/net_socket.cc from 2.18.3 to 2.30.7; an
issue is named where it shows the symptom.
"""

from gpudoctor.symptom import LIKELY, POSSIBLE, PROVED, SEEN, Symptom

NODE = "n07:81422:81733 [2] "
INFO, WARN = NODE + "NCCL INFO ", NODE + "misc/socket.cc:118 NCCL WARN "

SYMPTOMS: tuple[Symptom, ...] = (
    Symptom(
        "no-socket-interface",
        needle="Bootstrap : no socket interface found",
        cause="wrong-nic",
        variant="none",
        confidence=PROVED,
        seen="NCCL found no network interface to connect the ranks by",
        source="NCCL bootstrap.cc; marin#6940, marin#7018",
        sample=WARN + "Bootstrap : no socket interface found",
        counter=INFO + "Bootstrap : Using ens3f0:10.4.0.7<0>",
    ),
    Symptom(
        "address-unfilled",
        pattern=r"connecting to address (?P<address>\S{0,80}) ?with family (?P<family>\d{1,6}) is neither AF_INET\(2\)",
        cause="wrong-nic",
        variant="unfilled",
        seen="NCCL connects to an address of no family ({family}): the interface that it was told is not there",
        source="NCCL misc/socket.cc, include/socket.h of 2.12 and before; nccl#1837",
        sample=(
            WARN + "ncclSocketInit: connecting to address  with family 50912 is neither AF_INET(2) nor AF_INET6(10)",
            WARN + "Net : connecting to address  with family 0 is neither AF_INET(2) nor AF_INET6(10)",
        ),
        counter=WARN + "NET/Socket : connecting to address 10.4.0.9<51210> with family 2",
    ),
    Symptom(
        "no-listening-interface",
        needle=("No usable listening interface found", "No interface found in the same subnet"),
        cause="wrong-nic",
        variant="comm-id",
        seen="NCCL found no interface in the subnet of the address that it shall listen on",
        source="NCCL misc/socket.cc; nccl#929, nccl#331",
        sample=WARN + "NET/Socket : No usable listening interface found",
        counter=INFO + "NET/Socket : Using [0]ens3f0:10.4.0.7<0>",
    ),
    Symptom(
        "rdma-without-ip-interface",
        needle=("NET/IB : No IP interface found", "NET/Socket : no interface found"),
        cause="wrong-nic",
        seen="NCCL found RDMA devices and no interface with an IP address for their handshake",
        source="NCCL transport/net_ib",
        sample=WARN + "NET/IB : No IP interface found.",
        counter=INFO + "NET/IB : Using [0]mlx5_2:1/IB [RO]",
    ),
    Symptom(
        "network-unreachable",
        pattern=(
            r"[Cc]onnect to (?P<address>\S+?) (?:failed :|returned) (?:\d+\()?Network is unreachable",
            r"[Cc]onnect returned Network is unreachable",
        ),
        cause="wrong-nic",
        variant="no-route",
        confidence=LIKELY,
        seen=("this node has no route to {address}", "this node has no route to another one"),
        source="NCCL misc/socket.cc, os/linux.cc: ENETUNREACH, which the kernel says by its own routes",
        sample=(
            WARN + "ncclOsSocketStartConnect: connect to 10.9.0.9<51210> failed : Network is unreachable",
            WARN + "socketStartConnect: Connect to 10.9.0.9<51210> failed : Network is unreachable",
        ),
        counter=WARN + "socketStartConnect: Connect to 10.9.0.9<51210> failed : No route to host",
    ),
    Symptom(
        "connect-gave-up",
        needle=("exceeded error retry count", "socketStartConnect", "ocketPollConnect", "onnect to "),
        pattern=(
            r"[Cc]onnect to (?P<address>\S+?) (?:failed :|returned) (?P<errno>[^,\n]*), exceeded error retry count",
            r"connect returned (?P<errno>[^,\n]*), exceeded error retry count",
            r"Connect to (?P<address>\S+?) (?:failed :|returned) (?P<errno>(?!(?:\d+\()?Network is unr)[^\n]*)",
            r"connect to (?P<address>\S+?) failed : (?P<errno>(?!Network is unr)[^\n]*)",
            r"socket(?:Start|Poll)Connect:? exceeded (?P<errno>retries|timeouts)",
            r"SocketPollConnect to (?P<address>\S+) failed with error (?P<errno>(?!Network is unr)[^\n]*)",
        ),
        unless=", retrying",
        cause="firewall-ephemeral-ports",
        role="connection",
        seen=("a rank could not connect to {address}: {errno}", "a rank could not connect to another one: {errno}"),
        versions="nccl 2.18 to 2.30, in four wordings",
        source="NCCL misc/socket.cc, os/linux.cc; sglang#3820, nccl#1105",
        sample=(
            WARN + "socketPollConnect: Connect to 10.4.0.9<51210> returned 110(Connection timed out) errno 115",
            WARN + "Net : Connect to 10.4.0.9<51210> failed : Connection timed out",
            WARN + "socketStartConnect: exceeded retries (20000)",
            WARN + "ncclOsSocketPollConnect to 10.4.0.9<51210> failed with error Connection refused",
        ),
        counter=INFO + "socketStartConnect: connect to 10.4.0.9<51210> returned Connection refused, retrying (3/34)",
    ),
    Symptom(
        "connect-unanswered",
        needle=", retrying",
        pattern=(
            r"connect to (?P<address>\S+?) returned (?P<errno>Connection timed out|No route to host), retrying",
            r"Call to connect returned (?P<errno>Connection timed out|No route to host), retrying",
        ),
        cause="firewall-ephemeral-ports",
        role="context",
        confidence=POSSIBLE,
        seen=(
            "a rank tried again and again to connect to {address}: {errno}",
            "a rank tried again and again to connect to another one: {errno}",
        ),
        source="NCCL misc/socket.cc, os/linux.cc; a log may end in these",
        sample=INFO + "socketPollConnect: connect to 10.4.0.9<51210> returned Connection timed out, retrying (3/34)",
        counter=INFO + "socketStartConnect: connect to 10.4.0.9<51210> returned Connection refused, retrying (3/34)",
    ),
    Symptom(
        "connect-retrying",
        needle=", retrying",
        pattern=(
            r"connect to (?P<address>\S+?) returned (?P<errno>(?!Connection timed|No route)[^,\n]*), retrying",
            r"Call to connect returned (?P<errno>(?!Connection timed|No route)[^,\n]*), retrying",
        ),
        role="context",
        seen=(
            "a rank is trying to connect to {address}: {errno}",
            "a rank is trying to connect to another one: {errno}",
        ),
        source="NCCL misc/socket.cc",
        sample=INFO + "Call to connect returned Connection refused, retrying",
        counter=INFO + "Connected all rings",
    ),
    Symptom(
        "peer-closed-connection",
        needle=("Connection closed by remote peer", "Call to recv ", "Call to send "),
        pattern=(
            r"Connection closed by remote peer (?P<address>\S+)",
            r"Connection closed by remote peer",
            r"Call to (?:recv|send) (?:from|to) (?P<address>\S+) failed : (?P<errno>[^\n]*)",
        ),
        role="consequence",
        seen="the connection to {address} was closed by the other end",
        source="NCCL misc/socket.cc",
        sample=(
            WARN + "socketProgress: Connection closed by remote peer n09.cluster<40932>",
            WARN + "socketProgressOpt: Call to recv from 10.4.0.9<40932> failed : Connection reset by peer",
            # composed since 2.24: "Call to %s %s failed", of "recv from" and "send to"
            WARN + "ncclOsSocketProgressOpt: Call to send to 10.4.0.9<40932> failed : Broken pipe",
        ),
        counter=INFO + "comm 0x7a rank 5 nranks 8 - Destroy COMPLETE",
    ),
    Symptom(
        "networks-of-two-kinds",
        pattern=(
            r"socketFinalizeAccept(?: from (?P<address>\S+))?: wrong type (?:4 != 3|3 != 4)",
            r"socketFinalizeAccept(?: from (?P<address>\S+))?: wrong socket type "
            r"\(peer (?:4 != expected 3|3 != expected 4)",
            r"Wrong socket type from (?P<address>\S+) \(peer (?:4 != expected 3|3 != expected 4)",
        ),
        cause="rdma-unused",
        variant="one-side",
        confidence=SEEN,
        seen=(
            "one rank speaks InfiniBand (NET/IB) and the other, {address}, sockets, or the other way round",
            "one rank speaks InfiniBand (NET/IB) and another one sockets",
        ),
        versions="a warning up to 2.29; since 2.30 a line at INFO, and NCCL goes on waiting; 2.32 words it anew",
        source="NCCL misc/socket.cc; include/socket.h: 3 is ncclSocketTypeNetSocket, 4 is ncclSocketTypeNetIb",
        sample=(
            WARN + "socketFinalizeAccept from 10.4.0.9<61022>: wrong type 4 != 3",
            INFO
            + "socketFinalizeAccept from 10.4.0.9<61022>: wrong socket type (peer 3 != expected 4 -- peer connected "
            "to wrong NCCL socket), discarding peer connection",
            INFO
            + "Wrong socket type from 10.4.0.9<61022> (peer 4 != expected 3 -- peer connected to wrong NCCL socket), "
            "discarding peer connection",
        ),
        counter=WARN + "socketFinalizeAccept from 10.4.0.9<61022>: wrong type 1 != 2",
    ),
    Symptom(
        "bootstrap-rank-counts-differ",
        pattern=(
            r"Bootstrap Root : mismatch in info from procs, nranks (?P<least>\d+) vs (?!(?P=least)\b)(?P<most>\d+)",
            r"Bootstrap Root : mismatch in rank count from procs (?P<least>-?\d+) : (?P<most>-?\d+)",
        ),
        cause="launcher-world-mismatch",
        confidence=SEEN,
        seen="one rank was told that there are {least} ranks, another {most}",
        source="NCCL bootstrap.cc (bootstrapRoot): nranks is what each rank gave ncclCommInitRank",
        sample=(
            WARN + "Bootstrap Root : mismatch in info from procs, nranks 8 vs 16, nroots 1 vs 1, iroot 0 vs 0",
            WARN + "Bootstrap Root : mismatch in rank count from procs 8 : 16",
        ),
        counter=WARN + "Bootstrap Root : mismatch in info from procs, nranks 2 vs 2, nroots 1 vs 0, iroot 0 vs 0",
    ),
    Symptom(
        "bootstrap-info-differs",
        pattern=(
            r"Bootstrap Root : mismatch in info from procs, nranks (?P<count>\d+) vs (?P=count)\b",
            r"Bootstrap Root : mismatch in info from procs(?!, nranks)",
        ),
        cause="version-mismatch",
        confidence=LIKELY,
        seen="the ranks told the first one things that do not fit together, as other releases of NCCL do",
        versions="nccl 2.23 and later; before, the rank count alone is compared",
        source="NCCL bootstrap.cc (bootstrapRoot)",
        sample=(
            WARN
            + "Bootstrap Root : mismatch in info from procs, nranks 2 vs 2, nroots 1 vs 0, iroot 0 vs 0, offset 0 vs 3",
        ),
        counter=WARN + "Bootstrap Root : rank 3 of 8 ranks has already checked in",
    ),
    Symptom(
        "foreign-connection",
        pattern=(
            r"socketFinalizeAccept(?: from (?P<address>\S+))?: wrong (?:type (?!4 != 3|3 != 4)|magic)",
            r"socketFinalizeAccept(?: from (?P<address>\S+))?: didn't receive a valid magic",
        ),
        cause="version-mismatch",
        variant="foreign",
        role="connection",
        confidence=POSSIBLE,
        seen=(
            "something that is no rank of this job connected to NCCL's port, from {address}",
            "something that is no rank of this job connected to NCCL's port",
        ),
        versions="wording since 2.21 and since 2.27",
        source="NCCL misc/socket.cc; nccl-tests#188",
        sample=WARN + "socketFinalizeAccept from 10.4.0.250<61022>: wrong magic 4745542f20485454 != 8f1c3a",
        counter=INFO + "Bootstrap timings total 0.06 (create 0.00, send 0.00, recv 0.02)",
    ),
    Symptom(
        "nccl-peer-of-another-release",
        pattern=r"NCCL version mismatch with remote peer (?P<address>\S+) \(local: (?P<version>[^,)\n]{1,60}), remote "
        r"(?P<other_version>[^)\n]{1,60})\)",
        cause="version-mismatch",
        confidence=PROVED,
        seen="{address} has NCCL {other_version}, and this rank {version}",
        versions="nccl 2.24 and later (its RAS)",
        source="NCCL ras/ras.cc",
        sample=WARN + "NCCL version mismatch with remote peer 10.4.0.9<40112> (local: 2.27.5, remote 2.28.9)",
        counter="NCCL version 2.27.5+cuda12.9",
    ),
    Symptom(
        "nccl-builds-differ",
        needle="Mismatched NCCL git versions detected",
        cause="version-mismatch",
        seen="the ranks have builds of NCCL from different sources",
        versions="nccl 2.32",
        source="NCCL init.cc",
        sample=WARN + "Mismatched NCCL git versions detected: rank 0 fingerprint 0x1f2e3d4c, rank 9 fingerprint 0x0",
        counter=WARN + "Mismatched NCCL version detected : rank 3 version 22705 rank 11 version 22304",
    ),
    Symptom(
        "too-many-open-files",
        needle=("Accept failed: Too many open files", "Too many open files"),
        cause="open-files-limit",
        seen="the limit of open files was reached",
        source="NCCL os/linux.cc",
        sample=(
            WARN + "socketTryAccept: Accept failed: Too many open files",
            "OSError: [Errno 24] Too many open files",
        ),
        counter="open files (-n) 1048576",
    ),
    Symptom(
        "nccl-address-of-nobody",
        pattern=r"misc/socket\.cc:\d+ (?:\(\w+\) )?NCCL WARN Call to bind failed: Cannot assign requested address",
        cause="nccl-settings",
        variant="comm-id",
        confidence=LIKELY,
        seen="NCCL was to listen on an address that this machine does not have",
        source="NCCL misc/socket.cc (ncclSocketListen), bootstrap.cc (bootstrapCreateRoot): NCCL_COMM_ID's address is "
        "listened on as it is, all others are those of interfaces",
        sample="n07:8406:8406 [0] misc/socket.cc:108 NCCL WARN Call to bind failed: Cannot assign requested address",
        counter="n07:8406:8406 [0] ras/client_support.cc:178 NCCL WARN Call to bind failed: Cannot assign requested "
        "address",
    ),
    Symptom(
        "no-net-plugin-started",
        pattern=(r"Error: network (?P<network>[^\n]{0,60}?) not found\.", r"Failed to initialize any NET plugin"),
        cause="nccl-settings",
        variant="network",
        seen=("NCCL finds no network {network}", "NCCL could start no network at all"),
        versions="the first up to 2.26, the second since 2.27",
        source="NCCL net.cc, plugin/net.cc; ainode PR#87",
        sample=(WARN + "Failed to initialize any NET plugin", WARN + "Error: network IB not found."),
        counter=INFO + "Initialized NET plugin IB",
    ),
    Symptom(
        "socket-network-started",
        needle="Initialized NET plugin Socket",
        role="context",
        seen="NCCL has got its TCP network ready",
        versions="nccl 2.27 and later",
        source="NCCL plugin/net.cc",
        sample=INFO + "Initialized NET plugin Socket",
        counter=INFO + "Initialized NET plugin IB",
    ),
    Symptom(
        "net-plugin-not-found",
        pattern=r"NET/Plugin: (?:No plugin found \((?P<plugin>[^)\n]*)\)|Could not find:? ?(?P<name>[^\n]*))",
        role="context",
        seen="NCCL found no network plugin",
        versions="nccl 2.21 and 2.27 word it differently",
        source="NCCL plugin/net.cc",
        sample=INFO + "NET/Plugin: Could not find: libnccl-net.so.",
        counter=INFO + "NET/Plugin: Loaded net plugin AWS",
    ),
    Symptom(
        "network-is-tcp",
        pattern=r"Using network Socket(?:\s|$)",
        role="context",
        seen="NCCL goes over TCP (NET/Socket)",
        source="NCCL init.cc; AReaL#639",
        sample=INFO + "Using network Socket",
        counter=INFO + "Using network IB",
    ),
    Symptom(
        "nccl-versions-differ",
        pattern=r"Mismatched NCCL version detected : rank (?P<rank>\d+) version (?P<version>\d+) rank (?P<other>\d+) "
        r"version "
        r"(?P<other_version>\d+)",
        cause="version-mismatch",
        confidence=PROVED,
        seen="rank {rank} has NCCL {version} and rank {other} has {other_version}",
        source="NCCL init.cc",
        sample=WARN + "Mismatched NCCL version detected : rank 3 version 22705 rank 11 version 22304",
        counter="NCCL version 2.27.5+cuda12.9",
    ),
    Symptom(
        "bootstrap-rank-twice",
        pattern=r"Bootstrap Root : rank (?P<rank>\d+) of (?P<count>\d+) ranks has already checked in",
        cause="launcher-world-mismatch",
        variant="numbered-alike",
        confidence=PROVED,
        seen="rank {rank} of {count} came twice: two processes have the same rank",
        source="NCCL bootstrap.cc (bootstrapRoot)",
        sample=WARN + "Bootstrap Root : rank 3 of 8 ranks has already checked in",
        counter=WARN + "Bootstrap Root : mismatch in rank count from procs 8 : 16",
    ),
    Symptom(
        "socket-message-truncated",
        pattern=r"NET/Socket : peer (?P<address>\S+) message truncated : receiving (?P<size>\d+) bytes instead of "
        r"(?P<other_size>\d+)",
        cause="shape-mismatch",
        seen="{address} sent {size} bytes instead of {other_size}: sizes or NCCL's settings differ between ranks",
        source="NCCL transport/net_socket.cc",
        sample=WARN + "NET/Socket : peer 10.4.0.9<40117> message truncated : receiving 8192 bytes instead of 4096. If",
        counter=INFO + "NET/Socket : Using [0]ens3f0:10.4.0.7<0>",
    ),
    Symptom(
        "nccl-file-unreadable",
        pattern=r"Could not open XML (?P<what>graph|topology) file (?P<file>\S+) : (?P<errno>[^\n]{1,80})",
        cause="nccl-settings",
        variant="file",
        seen="NCCL could not read its {what} file {file}: {errno}",
        source="NCCL graph/xml.cc",
        sample=WARN + "Could not open XML graph file /etc/nccl/g.xml : No such file or directory",
        counter=INFO + "NCCL_GRAPH_FILE set by environment to /etc/nccl/g.xml",
    ),
)
