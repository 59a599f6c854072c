"""Symptoms of finding interfaces and connecting over TCP: bootstrap, NET/Socket.

Texts as in NCCL's misc/socket.cc, os/linux.cc, bootstrap.cc and transport/net_socket.cc from 2.18.3 to 2.30.7; an
issue is named where it shows the symptom.
"""

from gpudoctor.sure import POSSIBLE, PROVED
from gpudoctor.symptom import Symptom

NODE = "n07:81422:81733 [2] "
INFO, WARN = NODE + "NCCL INFO ", NODE + "misc/socket.cc:118 NCCL WARN "

SYMPTOMS: tuple[Symptom, ...] = (
    Symptom(
        "no-socket-interface",
        needle=("Bootstrap : no socket interface found", "Bootstrap: no socket interface found"),
        cause="wrong-nic",
        confidence=PROVED,
        seen="NCCL found no network interface to connect the ranks by",
        source="NCCL bootstrap.cc; marin#6940, marin#7018",
        sample=WARN + "Bootstrap : no socket interface found",
        counter=INFO + "Bootstrap : Using ens3f0:10.4.0.7<0>",
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
        needle="NET/IB : No IP interface found",
        cause="wrong-nic",
        seen="NCCL found RDMA devices and no interface with an IP address for their handshake",
        source="NCCL transport/net_ib",
        sample=WARN + "NET/IB : No IP interface found.",
        counter=INFO + "NET/IB : Using [0]mlx5_2:1/IB [RO]",
    ),
    Symptom(
        "connect-gave-up",
        needle=("exceeded error retry count", "socketStartConnect", "socketPollConnect", "connect to "),
        pattern=(
            r"[Cc]onnect to (?P<address>\S+?) (?:failed :|returned) (?P<errno>[^,\n]*), exceeded error retry count",
            r"connect returned (?P<errno>[^,\n]*), exceeded error retry count",
            r"Connect to (?P<address>\S+?) (?:failed :|returned) (?P<errno>[^\n]*)",
            r"connect to (?P<address>\S+?) failed : (?P<errno>[^\n]*)",
            r"socket(?:Start|Poll)Connect:? exceeded (?P<errno>retries|timeouts)",
        ),
        unless=", retrying",
        cause="firewall-ephemeral-ports",
        role="connection",
        seen=("a rank could not connect to {address}: {errno}", "a rank could not connect to another one: {errno}"),
        versions="nccl 2.18 to 2.30, in four wordings",
        source="NCCL misc/socket.cc, os/linux.cc; sglang#3820, nccl#1105",
        sample=(
            WARN + "socketPollConnect: Connect to 10.4.0.9<51210> returned 110(Connection timed out) errno 115",
            WARN + "socketStartConnect: exceeded retries (20000)",
        ),
        counter=INFO + "socketStartConnect: connect to 10.4.0.9<51210> returned Connection refused, retrying (3/34)",
    ),
    Symptom(
        "connect-retrying",
        needle=", retrying",
        pattern=(
            r"connect to (?P<address>\S+?) returned (?P<errno>[^,\n]*), retrying",
            r"Call to connect returned (?P<errno>[^,\n]*), retrying",
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
        sample=WARN + "socketProgress: Connection closed by remote peer n09.cluster<40932>",
        counter=INFO + "comm 0x7a rank 5 nranks 8 - Destroy COMPLETE",
    ),
    Symptom(
        "foreign-connection",
        needle="socketFinalizeAccept",
        pattern=(
            r"socketFinalizeAccept(?: from (?P<address>\S+))?: wrong (?:type|magic)",
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
        "no-net-plugin-started",
        needle="Failed to initialize any NET plugin",
        cause="nccl-settings",
        variant="network",
        seen="NCCL could start no network at all",
        source="NCCL plugin/net.cc; ainode PR#87",
        sample=WARN + "Failed to initialize any NET plugin",
        counter=INFO + "Initialized NET plugin IB",
    ),
    Symptom(
        "net-plugin-not-found",
        needle=("NET/Plugin: No plugin found", "NET/Plugin: Could not find"),
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
        needle="Using network Socket",
        pattern=r"Using network Socket(?:\s|$)",
        role="context",
        seen="NCCL goes over TCP (NET/Socket)",
        source="NCCL init.cc; AReaL#639",
        sample=INFO + "Using network Socket",
        counter=INFO + "Using network IB",
    ),
    Symptom(
        "nccl-versions-differ",
        needle="Mismatched NCCL version detected",
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
)
