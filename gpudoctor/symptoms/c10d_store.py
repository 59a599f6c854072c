"""The rendezvous: torch's TCPStore and its sockets (socket.cpp, TCPStore.cpp, distributed_c10d.py)."""

from gpudoctor.symptom import HINT, LIKELY, POSSIBLE, SEEN, Symptom

C10D = "[c10d] "
LOOPBACK = r"(?:localhost|127(?:\.\d{1,3}){3}|\[?::1\]?|ip6-localhost)"
TO = r"\(?(?P<address>[^\s,()]{1,253})(?:, ?|:)(?P<port>\d{1,5})(?=\)|\.?\s|\.?$)"
"""(head, 29500), older: 10.0.0.1:29500, [head]:29500."""
SOCKET = "torch c10d/socket.cpp"
STORE = "torch c10d/TCPStore.cpp"

SYMPTOMS: tuple[Symptom, ...] = (
    Symptom(
        "store-connect-timeout-loopback",
        pattern=r"client socket has timed out after (?P<timeout>\S+) while trying to connect to "
        rf"\(?(?P<address>{LOOPBACK})[,:] ?(?P<port>\d{{1,5}})\b",
        cause="master-addr-loopback",
        variant="own store",
        role="connection",
        confidence=POSSIBLE,
        seen="a rank looked for the head of the job on its own loopback ({address}:{port}) for {timeout}",
        source=SOCKET,
        sample="[E socket.cpp:1019] "
        + C10D
        + "The client socket has timed out after 60000ms while trying to connect to (127.0.0.1, 29411).",
        counter="The client socket has timed out after 60000ms while trying to connect to (10.1.0.4, 29411).",
    ),
    Symptom(
        "store-connect-timeout",
        pattern=r"client socket has timed out after (?P<timeout>\S+) while trying to connect to "
        rf"(?!\(?{LOOPBACK}[,:])" + TO,
        cause="master-unreachable",
        role="connection",
        confidence=SEEN,
        seen="a rank could not connect to the head of the job at {address}:{port} within {timeout}",
        source=SOCKET,
        sample=(
            "[E818 11:02:13.55 socket.cpp:1019] "
            + C10D
            + "The client socket has timed out after 600000ms while trying to connect to (gpu-a03.cluster, 29411).",
            "[E socket.cpp:860] " + C10D + "The client socket has timed out after 300s while trying to connect to "
            "10.1.0.4:29411",
            "torch.distributed.DistNetworkError: The client socket has timed out after 20min while trying to connect "
            "to (fd00:7::4, 29411).",
        ),
        counter="The client socket has timed out after 60000ms while trying to connect to (localhost, 29411).",
    ),
    Symptom(
        "store-connect-timeout-old",
        pattern=r"\bconnect\(\) timed out\.(?: Original timeout was (?P<timeout>\d+) ms)?",
        cause="master-unreachable",
        role="connection",
        seen="a rank could not connect to the head of the job in time",
        versions="torch < 1.11",
        source="torch c10d/Utils of 1.x (torch/lib/c10d/Utils.cpp, kConnectTimeoutMsg)",
        sample="RuntimeError: connect() timed out.",
        counter="connect() failed. Original error was 5",
    ),
    Symptom(
        "store-client-gave-up",
        pattern=r"TCP client failed to connect/validate to host (?P<address>\S+):(?P<port>\d+) - timed out",
        cause="master-unreachable",
        role="connection",
        seen="a rank gave up to connect to the store at {address}:{port}",
        versions="torch >= 2.4",
        source=STORE,
        sample="[E1 TCPStore.cpp:346] "
        + C10D
        + "TCP client failed to connect/validate to host gpu-a03:29411 - timed out (try=1, timeout=600000ms): an error",
        counter="[W1 TCPStore.cpp:340] "
        + C10D
        + "TCP client failed to connect/validate to host gpu-a03:29411 - retrying "
        "(try=0, timeout=600000ms, delay=31120ms): an error",
    ),
    Symptom(
        "store-client-retries",
        needle=("TCP client failed to connect/validate to host", "is listening yet, will retry", ", will retry."),
        pattern=(
            r"TCP client failed to connect/validate to host (?P<address>\S+):(?P<port>\d+) - retrying",
            r"No socket on \((?P<address>[^,\s]+), (?P<port>\d+)\) is listening yet, will retry",
            r"The server socket on (?P<address>\S+):(?P<port>\d+) (?:is not yet listening|has timed out)",
        ),
        role="context",
        seen="a rank tries again to connect to {address}:{port}",
        source=SOCKET,
        sample=(
            "[W1 TCPStore.cpp:340] " + C10D + "TCP client failed to connect/validate to host gpu-a03:29411 - retrying "
            "(try=0, timeout=600000ms, delay=31120ms): an error",
            "[I socket.cpp:566] " + C10D + "No socket on (gpu-a03, 29411) is listening yet, will retry.",
            "[W socket.cpp:760] " + C10D + "The server socket on [gpu-a03]:29411 has timed out, will retry.",
        ),
        counter="will retry.",
    ),
    Symptom(
        "store-connect-no-route",
        pattern=r"The client socket has failed to connect to (?:any network address of )?\(?"
        r"(?P<address>[^\s,()]{1,253}?)[,:] ?(?P<port>\d{1,5})\)?"
        r" \(errno: (?:110|113|101) - (?P<errno>[^)\n]{1,60})\)",
        cause="master-unreachable",
        role="connection",
        seen="no connection to {address}:{port}: {errno}",
        source=SOCKET,
        sample=(
            "[W socket.cpp:663] "
            + C10D
            + "The client socket has failed to connect to [::ffff:10.1.0.4]:29411 (errno: 110 - Connection timed out).",
            "[W819 socket.cpp:767] "
            + C10D
            + "The client socket has failed to connect to [gpu-a03]:29411 (errno: 113 - No route to host).",
        ),
        counter="[W socket.cpp:663] "
        + C10D
        + "The client socket has failed to connect to [gpu-a03]:29411 (errno: 97 - "
        "Address family not supported by protocol).",
    ),
    Symptom(
        "store-connect-refused",
        pattern=r"The client socket has failed to connect to (?:any network address of )?\(?"
        r"(?P<address>[^\s,()]{1,253}?)[,:] ?(?P<port>\d{1,5})\)? ?"
        r"(?:\(errno: (?:111|97|99|22) - (?P<errno>[^)\n]{1,60})\)|\.|$)",
        role="context",
        seen="a first attempt to connect to {address}:{port} failed; torch tries again",
        source=SOCKET,
        sample=(
            "[W socket.cpp:663] " + C10D + "The client socket has failed to connect to [gpu-a03]:29411 (errno: 111 - "
            "Connection refused).",
            "[W1 socket.cpp:755] "
            + C10D
            + "The client socket has failed to connect to any network address of (gpu-a03, 29411).",
        ),
        counter="[W socket.cpp:663] "
        + C10D
        + "The client socket has failed to connect to [gpu-a03]:29411 (errno: 113 - No route to host).",
    ),
    Symptom(
        "store-connect-failed",
        pattern=r"(?:Error|Exception): The client socket has failed to connect to any network address of "
        r"\((?P<address>[^\s,()]{1,253}), ?(?P<port>\d{1,5})\)\. (?:[^\n]{1,4000}? - (?P<error>[^)\n]{1,80})\))?",
        cause="master-unreachable",
        role="connection",
        seen=(
            "a rank could not connect to the head of the job at {address}:{port}: {error}",
            "a rank could not connect to the head of the job at {address}:{port}",
        ),
        source=SOCKET + " (SocketConnectOp::run, what it throws)",
        sample=(
            "torch.distributed.DistNetworkError: The client socket has failed to connect to any network address of "
            "(gpu-a03, 29411). The client socket has failed to connect to 10.1.0.4:29411 (errno: 111 - Connection "
            "refused).",
            "RuntimeError: The client socket has failed to connect to any network address of (localhost, 29411). The "
            "client socket cannot be initialized to connect to localhost:29411 (errno: 1 - Operation not permitted).",
        ),
        counter="[E1 socket.cpp:1015] "
        + C10D
        + "The client socket has failed to connect to any network address of (gpu-a03, 29411).",
    ),
    Symptom(
        "store-name-unknown",
        pattern=(
            r"The (?P<family>IPv4|IPv4 or IPv6|IPv6) network addresses of \((?P<address>[^,\s]{1,253}), "
            r"?(?P<port>\d+)\) cannot be retrieved \(gai error: -(?:2|3|5) - (?P<error>[^)\n]{1,80})\)",
            r"client socket has failed to connect to (?P<address>[^,\s(]{1,253}) \(gai error: -(?:2|3|5) - "
            r"(?P<error>[^)\n]{1,80})\)",
        ),
        cause="master-unreachable",
        variant="unknown name",
        role="connection",
        seen="the name {address} of the head is not known on this node: {error}",
        source=SOCKET,
        sample="[W socket.cpp:601] "
        + C10D
        + "The IPv4 network addresses of (gpu-a03.cluster, 29411) cannot be retrieved "
        "(gai error: -2 - Name or service not known).",
        counter="[W socket.cpp:601] "
        + C10D
        + "The IPv6 network addresses of (gpu-a03.cluster, 29411) cannot be retrieved "
        "(gai error: -9 - Address family for hostname not supported).",
    ),
    Symptom(
        "name-unknown",
        pattern=r"\bgaierror: \[Errno -(?:2|3|5)\] (?P<error>[^\n]{1,80})",
        cause="master-unreachable",
        variant="any-name",
        confidence=POSSIBLE,
        seen="a host name is not known on this node: {error}",
        source="getaddrinfo(3)",
        sample="socket.gaierror: [Errno -3] Temporary failure in name resolution",
        counter="socket.gaierror: [Errno -8] Servname not supported for ai_socktype",
    ),
    Symptom(
        "store-port-in-use",
        needle=("ddress already in use", "EADDRINUSE"),
        pattern=(
            r"server socket has failed to (?:bind|listen)[^\n]{0,120}?"
            r"(?:\bto |\bon )?(?P<address>\[[0-9a-fA-F:.]{2,60}\]|[\d.]{7,15}):(?P<port>\d{1,5}) \(errno: 98 - ",
            r"server socket has failed to listen on any local network address\. port: (?P<port>\d{1,5}),"
            r"[^\n]{0,80}EADDRINUSE",
            r"\[Errno 98\] (?:Address already in use|EADDRINUSE|error while attempting to bind on address "
            r"\('(?P<address>[^']{1,60})', (?P<port>\d{1,5}))",
            r"RuntimeError: Address already in use",
        ),
        cause="master-port-in-use",
        seen="the port that the head of the job needs is taken by another process",
        source=SOCKET,
        sample=(
            "[W socket.cpp:426] "
            + C10D
            + "The server socket has failed to bind to [::]:6006 (errno: 98 - Address already in use).",
            "[W socket.cpp:426] " + C10D + "The server socket has failed to bind to 0.0.0.0:6006 (errno: 98 - Address "
            "already in use).",
            "torch.distributed.DistNetworkError: The server socket has failed to listen on any local network address. "
            "port: 6006, useIpv6: false, code: -98, name: EADDRINUSE, message: address already in use",
            "OSError: [Errno 98] Address already in use",
        ),
        counter=(
            "NCCL WARN Call to bind succeeded",
            "The server socket has failed to listen on any local network address. port: 80, useIpv6: false, code: -13, "
            "name: EACCES, message: permission denied",
        ),
    ),
    Symptom(
        "store-port-refused",
        needle="server socket has failed to listen on any local",
        pattern=r"server socket has failed to listen on any local network address\.\s*(?:$|\")",
        cause="master-port-in-use",
        confidence=LIKELY,
        seen="the head of the job could not listen on its port, as where another process has it; why, is not said",
        source=SOCKET,
        sample="[E socket.cpp:462] " + C10D + "The server socket has failed to listen on any local network address.",
        counter="The server socket has failed to listen on any local network address. port: 80, useIpv6: false, "
        "code: -13, name: EACCES, message: permission denied",
    ),
    Symptom(
        "store-port-forbidden",
        pattern=(
            r"failed to listen on any local network address\. port: (?P<port>\d{1,5}),[^\n]{0,80}EACCES",
            r"server socket has failed to bind to (?P<address>\S{1,60}?):(?P<port>\d{1,5}) \(errno: 13 - ",
        ),
        cause="master-unreachable",
        variant="port",
        confidence=LIKELY,
        seen="the head of the job may not listen on port {port}: ports below 1024 belong to root",
        source=SOCKET,
        sample=(
            "[E socket.cpp:462] "
            + C10D
            + "The server socket has failed to listen on any local network address. port: 443, "
            "useIpv6: false, code: -13, name: EACCES, message: permission denied",
            "[W socket.cpp:426] " + C10D + "The server socket has failed to bind to [::]:443 (errno: 13 - Permission "
            "denied).",
        ),
        counter="open('/data/x') failed with EACCES",
    ),
    Symptom(
        "store-port-left-to-agent",
        needle="TORCHELASTIC_USE_AGENT_STORE is enabled so ignoring the error",
        role="context",
        seen="rank 0 uses the store of torchrun's agent, which has the port; that is as it should be",
        versions="torch >= 2.2",
        source=STORE,
        sample="[I1 TCPStore.cpp:274] " + C10D + "The server socket on port 29411 has failed to bind. "
        "TORCHELASTIC_USE_AGENT_STORE is enabled so ignoring the error.",
        counter="TORCHELASTIC_USE_AGENT_STORE=True",
    ),
    Symptom(
        "store-clients-missing",
        pattern=r"Timed out after (?P<timeout>\d+) seconds waiting for clients\. (?P<joined>\d+)/(?P<size>\d+) "
        r"clients joined",
        cause="launcher-world-mismatch",
        variant="missing",
        role="connection",
        seen="{joined} of {size} processes came to the rendezvous within {timeout} s",
        versions="torch >= 1.12",
        source=STORE + " (waitForWorkers)",
        sample="torch.distributed.DistStoreError: Timed out after 1801 seconds waiting for clients. 6/8 clients "
        "joined.",
        counter="All 8 clients joined.",
    ),
    Symptom(
        "store-barrier-missing",
        pattern=r"Timed out initializing process group in store based ?barrier on rank:? ?(?P<rank>\d+), for key: "
        r"(?P<key>\S{1,120}) \(world_size=(?P<size>\d+), (?:num_workers_joined|worker_count)=(?P<joined>\d+)",
        cause="launcher-world-mismatch",
        variant="store",
        role="connection",
        seen="rank {rank} saw {joined} of {size} ranks at the start of a process group",
        source="torch distributed_c10d.py (_store_based_barrier)",
        sample=(
            "torch.distributed.DistStoreError: Timed out initializing process group in store based barrier on rank 3, "
            "for key: store_based_barrier_key:1 (world_size=8, num_workers_joined=7, timeout=0:30:00)",
            "RuntimeError: Timed out initializing process group in store based barrier on rank: 0, for key: "
            "store_based_barrier_key:2 (world_size=4, worker_count=8, timeout=0:30:00)",
        ),
        counter="Rank 3: Completed store-based barrier for key:store_based_barrier_key:1 with 8 nodes.",
    ),
    Symptom(
        "store-barrier-waits",
        needle=("Waiting in store based barrier", "Completed store-based barrier"),
        pattern=(
            r"for rank: (?P<rank>\d+), key: (?P<key>\S{1,120}) \(world_size=(?P<size>\d+), "
            r"(?:num_workers_joined|worker_count)=(?P<joined>\d+)",
            r"Rank (?P<rank>\d+): Completed store-based barrier for key:(?P<key>\S{1,120}) with (?P<size>\d+) nodes",
        ),
        role="context",
        seen="rank {rank} is at the start of a process group of {size}",
        source="torch distributed_c10d.py (_store_based_barrier)",
        sample=(
            "Waiting in store based barrier to initialize process group for rank: 3, key: store_based_barrier_key:1 "
            "(world_size=8, num_workers_joined=7, timeout=0:30:00)",
            "Rank 3: Completed store-based barrier for key:store_based_barrier_key:1 with 8 nodes.",
        ),
        counter="Rank 3: Completed epoch 1 with 8 nodes.",
    ),
    Symptom(
        "store-connection-lost",
        pattern=(
            r"(?:recvValue|recvValueWithTimeout|recvVector|recvBytes|sendBytes|sendValue|sendVector)\w{0,12} failed on "
            r"SocketImpl\([^)\n]{0,120}remote=(?P<address>[^)\n]{1,80})\)",
            r"Failed to (?:recv|send), (?:got|sent) 0 bytes\. Connection was likely closed",
            r'Failed to check the "should dump" flag on TCPStore',
        ),
        cause="store-host-exit",
        role="consequence",
        seen="the connection to the store broke: the process that serves it has ended",
        versions="torch >= 2.4",
        source=STORE,
        sample=(
            "[rank3]:[W1 TCPStore.cpp:106] " + C10D + "sendBytes failed on SocketImpl(fd=61, addr=[gpu-a04]:51772, "
            "remote=[gpu-a03]:29411): Broken pipe",
            "[W1 TCPStore.cpp:122] " + C10D + "recvValue failed on SocketImpl(fd=3, addr=[localhost]:40622, "
            "remote=[localhost]:29411): Failed to recv, got 0 bytes. Connection was likely closed. Did the remote "
            "server shutdown or crash?",
            '[rank3]:[W1 ProcessGroupNCCL.cpp:1659] [PG ID 0 PG GUID 0 Rank 3] Failed to check the "should dump" '
            "flag on "
            "TCPStore, (maybe TCPStore server has shut down too early), with error: Broken pipe",
        ),
        counter="SocketImpl(fd=3, addr=[localhost]:40622, remote=[localhost]:29411) is open",
    ),
    Symptom(
        "store-wait-timeout",
        pattern=(
            r"(?:wait|barrier) timeout after (?P<timeout>\d+)ms, keys?: (?P<key>[^\s,]{1,160})",
            r"Timeout waiting for key: (?P<key>[^\s]{1,160})",
            r"(?:Runtime|Timeout|DistStore|DistNetwork)Error: Socket Timeout",
        ),
        role="consequence",
        confidence=HINT,
        seen="a rank waited in vain for what another rank writes into the store",
        source=STORE,
        sample=(
            "torch.distributed.DistStoreError: wait timeout after 300000ms, keys: /default_pg/0//cuda//0",
            "RuntimeError: Socket Timeout",
        ),
        counter="wait timeout is 300000ms",
    ),
    Symptom(
        "store-network-error",
        pattern=r"DistNetworkError: (?P<error>Connection reset by peer|Broken pipe|failed to recv|Failed to recv|"
        r"Connection was likely closed[^\n]{0,40})",
        cause="store-host-exit",
        role="consequence",
        confidence=HINT,
        seen="the connection to the store broke: {error}",
        versions="torch >= 2.2",
        source="torch c10d/Utils.hpp",
        sample="torch.distributed.DistNetworkError: Connection reset by peer",
        counter="torch.distributed.DistNetworkError: The client socket has timed out after 60000ms while trying to "
        "connect to (gpu-a03, 29411).",
    ),
    Symptom(
        "store-reset-old",
        pattern=r"\bRuntimeError: Connection reset by peer\s*$",
        cause="master-unreachable",
        variant="reset",
        role="connection",
        confidence=LIKELY,
        seen="a connection to the store of rank 0 was taken and closed by the other end",
        versions="torch < 2.2",
        source="torch c10d/Utils.hpp of 1.x (SYSCHECK: strerror alone); kubeflow/pytorch-operator#258",
        sample="RuntimeError: Connection reset by peer",
        counter="RuntimeError: NCCL error: Connection reset by peer (rank 3)",
    ),
    # rendezvous.py asks for RANK and WORLD_SIZE first: who lacks the address alone was told the others by the program
    Symptom(
        "rendezvous-address-missing",
        pattern=r"using env:// rendezvous: environment variable (?P<name>MASTER_(?:ADDR|PORT)) expected, but not set",
        cause="launcher-world-mismatch",
        variant="no-address",
        seen="{name} is not set: the ranks know their numbers, and not where they meet",
        source="torch rendezvous.py",
        sample="ValueError: Error initializing torch.distributed using env:// rendezvous: environment variable "
        "MASTER_ADDR expected, but not set",
        counter="ValueError: Error initializing torch.distributed using env:// rendezvous: environment variable "
        "RANK expected, but not set",
    ),
    Symptom(
        "rendezvous-variable-missing",
        pattern=r"using env:// rendezvous: environment variable (?P<name>(?!MASTER_)\w+) expected, but not set",
        cause="launcher-world-mismatch",
        variant="no-launcher",
        seen="{name} is not set: the script was started without a launcher",
        source="torch rendezvous.py",
        sample="ValueError: Error initializing torch.distributed using env:// rendezvous: environment variable "
        "WORLD_SIZE expected, but not set",
        counter="Error initializing the model: environment variable HF_HOME expected, but not set",
    ),
    Symptom(
        "store-foreign-client",
        pattern=r"Miscellaneous client with(?:out| incorrect) VALIDATE query is detected",
        role="context",
        seen="something that is no rank connected to the port of the store",
        versions="torch >= 2.2",
        source="torch TCPStoreBackend.cpp",
        sample="[W1 TCPStoreBackend.cpp:255] " + C10D + "Miscellaneous client without VALIDATE query is detected",
        counter="Miscellaneous client settings",
    ),
)
