"""gloo: connections between ranks on the CPU, and ProcessGroupGloo's own words."""

from gpudoctor.symptom import HINT, POSSIBLE, Symptom

GLOO = "[/pytorch/third_party/gloo/gloo/transport/tcp/"
SOURCE = "gloo transport/tcp"
REMOTE = r"\[(?P<address>[0-9a-fA-F:.]{2,45})\]:(?P<port>\d{1,5})"

SYMPTOMS: tuple[Symptom, ...] = (
    Symptom(
        "gloo-timeout",
        pattern=r"Timed out waiting (?P<timeout>\d+)ms for (?P<operation>send|recv) operation to complete",
        role="consequence",
        seen="a {operation} of gloo did not end within {timeout} ms: another rank did not come, or is slow",
        source=SOURCE + "/unbound_buffer.cc",
        sample="RuntimeError: "
        + GLOO
        + "unbound_buffer.cc:81] Timed out waiting 1800000ms for recv operation to complete",
        counter="waiting for the operation to complete",
    ),
    Symptom(
        "gloo-mesh-loopback",
        needle=("connectFullMesh failed with", "remote=[127.", "remote=[::1]", "] connect [127.", "] connect [::1]"),
        pattern=(
            r"(?:connectFullMesh failed with|SO_ERROR|timed out connecting)[^\n]{0,300}?"
            r"remote=\[(?P<address>127(?:\.\d{1,3}){3}|::1)\]:(?P<port>\d{1,5})",
            r"tcp/pair\.cc:\d+\] connect \[(?P<address>127(?:\.\d{1,3}){3}|::1)\]:(?P<port>\d{1,5}): ",
        ),
        cause="master-addr-loopback",
        variant="mesh",
        seen="gloo was told to reach another rank at {address}, which is the node's own loopback",
        source=SOURCE + "/pair.cc; torch ProcessGroupGloo.cpp",
        sample="RuntimeError: Gloo connectFullMesh failed with "
        + GLOO
        + "pair.cc:144] timed out connecting: SO_ERROR: Connection refused, remote=[127.0.1.1]:41733",
        counter="RuntimeError: Gloo connectFullMesh failed with "
        + GLOO
        + "pair.cc:144] timed out connecting: SO_ERROR: Connection refused, remote=[10.2.0.7]:41733",
    ),
    Symptom(
        "gloo-connect-failed",
        needle=("connectFullMesh failed with", "SO_ERROR: ", "timed out connecting", "/tcp/pair.cc:"),
        pattern=(
            r"(?:connectFullMesh failed with|SO_ERROR|timed out connecting)[^\n]{0,300}?"
            r"remote=\[(?P<address>(?!127\.|::1\])[0-9a-fA-F:.]{2,45})\]:(?P<port>\d{1,5})",
            r"tcp/pair\.cc:\d+\] connect (?!\[(?:127\.|::1\]))" + REMOTE + r": (?P<errno>[A-Z][\w ]{3,40})",
            r"connectFullMesh failed with (?![^\n]{0,300}remote=)(?P<errno>[^\n]{0,120})",
            r"tcp/pair\.cc:\d+\] (?P<errno>no error)",
        ),
        cause="firewall-ephemeral-ports",
        role="connection",
        seen="gloo could not connect to another rank",
        source=SOURCE + "/pair.cc; torch ProcessGroupGloo.cpp",
        sample=(
            "RuntimeError: Gloo connectFullMesh failed with " + GLOO + "pair.cc:144] timed out connecting: SO_ERROR: "
            "Connection timed out, remote=[10.2.0.7]:41733",
            "RuntimeError: " + GLOO + "pair.cc:799] connect [10.2.0.7]:41733: No route to host",
            "RuntimeError: Gloo connectFullMesh failed with " + GLOO + "pair.cc:144] no error",
        ),
        counter="RuntimeError: " + GLOO + "pair.cc:553] Connection closed by peer [10.2.0.7]:41733",
    ),
    Symptom(
        "gloo-size-mismatch",
        pattern=(
            r"Received data size doesn't match expected size",
            r"op\.preamble\.length <= op\.nbytes\. (?P<size>\d+) vs (?P<other_size>\d+)",
        ),
        cause="shape-mismatch",
        seen="a rank received more data than it had asked for: the ranks call the collective with different sizes, or "
        "another one",
        source=SOURCE + "/pair.cc",
        sample=(
            "  what():  [enforce fail at pair.cc:443] op.preamble.length <= op.nbytes. 4096 vs 1024",
            "libc++abi: Received data size doesn't match expected size. Is there a distributed collective mismatch in "
            "your code?",
        ),
        counter="Received data size 4096",
    ),
    Symptom(
        "gloo-peer-gone",
        pattern=(
            r"gloo/transport/tcp/\w{1,30}\.cc:\d+\] (?:Read error|Write error|readv|writev|read|write) " + REMOTE,
            r"gloo/transport/tcp/\w{1,30}\.cc:\d+\][^\n]{0,80}?(?:Connection closed by peer|Connection reset by peer|"
            r"Broken pipe|Socket (?:unexpectedly )?closed)(?:[^\n]{0,4}" + REMOTE + r")?",
        ),
        role="consequence",
        seen="gloo's connection to {address} was closed from the other end: that rank ended before",
        source=SOURCE + "/pair.cc",
        sample=(
            "RuntimeError: " + GLOO + "pair.cc:553] Connection closed by peer [10.2.0.7]:41733",
            "RuntimeError: " + GLOO + "pair.cc:598] Read error [fd00::7]:41733: Connection reset by peer",
            "RuntimeError: " + GLOO + "pair.cc:322] writev [10.2.0.7]:41733: Connection reset by peer. GLHF!",
        ),
        counter="RuntimeError: "
        + GLOO
        + "unbound_buffer.cc:81] Timed out waiting 1800000ms for recv operation to complete",
    ),
    Symptom(
        "gloo-excluded",
        pattern=r"Unable to find address for: (?P<interface>[\^=][\w.,-]{0,60})",
        cause="wrong-nic",
        variant="gloo-list",
        seen="gloo was given {interface} as the name of an interface: exclusion lists are NCCL's",
        source=SOURCE + "/device.cc; torch ProcessGroupGloo (split at commas)",
        sample="RuntimeError: [enforce fail at "
        + GLOO[1:]
        + "device.cc:84] ifa != nullptr. Unable to find address for: ^lo",
        counter="RuntimeError: [enforce fail at "
        + GLOO[1:]
        + "device.cc:84] ifa != nullptr. Unable to find address for: lo",
    ),
    Symptom(
        "gloo-no-address",
        pattern=(
            r"Unable to find address for:? ?(?P<interface>[\w.@-][\w.@:-]{0,40})",
            r"interface or hostname can't be empty",
        ),
        cause="wrong-nic",
        seen="gloo finds no address on the interface {interface}",
        source=SOURCE + "/device.cc",
        sample="RuntimeError: [enforce fail at "
        + GLOO[1:]
        + "device.cc:83] ifa != nullptr. Unable to find address for: enp65s0f1",
        counter="Unable to find the file",
    ),
    Symptom(
        "gloo-uses-loopback",
        needle="Unable to resolve hostname to a (local) address",
        cause="master-addr-loopback",
        role="context",
        confidence=POSSIBLE,
        seen="gloo listens on loopback, since the host's name stands for no address of this host",
        source="torch ProcessGroupGloo.cpp",
        sample="[W1 ProcessGroupGloo.cpp:760] Warning: Unable to resolve hostname to a (local) address. Using the "
        "loopback address as fallback. Manually set the network interface to bind to with GLOO_SOCKET_IFNAME.",
        counter="Unable to resolve host gpu-a03",
    ),
    Symptom(
        "monitored-barrier",
        pattern=r"Ranks? (?P<ranks>\d[\d, ]{0,4000}) failed to pass monitoredBarrier in (?P<timeout>\d+) ms",
        cause="rank0-only-collective",
        variant="absent",
        role="consequence",
        seen="ranks {ranks} did not come to a collective or barrier that the others wait in",
        source="torch ProcessGroupGloo.cpp (monitoredBarrier)",
        sample=(
            "RuntimeError: [Rank 0]: Ranks 2, 3 failed to pass monitoredBarrier in 300000 ms",
            "[E1 ProcessGroupGloo.cpp:2810] [Rank 0]: Rank 3 failed to pass monitoredBarrier in 2000 ms",
        ),
        counter="[Rank 0]: all ranks passed monitoredBarrier in 12 ms",
    ),
    Symptom(
        "monitored-barrier-victim",
        pattern=(
            r"Rank (?P<rank>\d+) (?:successfully reached monitoredBarrier, but received errors|timed out in "
            r"monitoredBarrier after)",
        ),
        role="consequence",
        confidence=HINT,
        seen="rank {rank} came to the monitored barrier, and others did not",
        source="torch ProcessGroupGloo.cpp (monitoredBarrier)",
        sample="RuntimeError: Rank 1 successfully reached monitoredBarrier, but received errors while waiting for "
        "send/recv from rank 0.",
        counter="Rank 1 reached monitoredBarrier",
    ),
)
