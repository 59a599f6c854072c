"""What a rank's own log shows: wordings beside the samples of the table, causes before consequences, a healthy log."""

import pytest
from hypothesis import given, strategies as st

from gpudoctor.symptom import ROLES
from gpudoctor.symptoms.in_text import symptoms
from tests.nccl_runs import log_of, record

COMPLETION = "NET/IB: Got completion from peer 10.0.0.2<4711> with"

# id, the text that NCCL writes, values that must be captured
ROWS: list[tuple[str, str, dict[str, str]]] = [
    ("ranks-share-gpu", "Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 1b000",
     {"rank": "1", "other": "0", "device": "1b000"}),
    ("ranks-share-gpu", "Multiple Ranks are using the same GPU/Partition", {}),
    ("no-listening-interface", "Net : No interface found in the same subnet", {}),
    ("connect-gave-up", "socketStartConnect: Connect to 10.0.0.2<4711> failed : No route to host",
     {"address": "10.0.0.2<4711>", "errno": "No route to host"}),
    ("connect-gave-up", "socketPollConnect: Connect to 10.0.0.2<4711> returned 113(No route to host) errno 115(x)",
     {"address": "10.0.0.2<4711>"}),
    ("connect-gave-up", "socketPollConnect: connect returned Connection timed out, exceeded error retry count (34)",
     {"errno": "Connection timed out"}),
    ("connect-gave-up",
     "f: connect to 10.0.0.2<4711> returned Connection refused, exceeded error retry count after 9 attempts",
     {"address": "10.0.0.2<4711>", "errno": "Connection refused"}),
    ("connect-retrying",
     "socketStartConnect: connect to 10.0.0.2<1> returned Connection refused, retrying (1/34) after sleep",
     {"address": "10.0.0.2<1>"}),
    ("peer-closed-connection", "socketProgress: Connection closed by remote peer n02<4711>", {"address": "n02<4711>"}),
    ("peer-closed-connection", "socketProgressOpt: Call to recv from 10.0.0.2<9> failed : Connection reset by peer",
     {"address": "10.0.0.2<9>", "errno": "Connection reset by peer"}),
    ("foreign-connection", "socketFinalizeAccept: wrong magic 0 != 1234", {}),
    ("foreign-connection", "socketFinalizeAccept from 10.0.0.9<5>: wrong type 3 != 2", {"address": "10.0.0.9<5>"}),
    ("foreign-connection", "socketFinalizeAccept from 10.0.0.9<5>: didn't receive a valid magic", {}),
    ("rdma-device-not-opened", "Call to ibv_open_device failed", {}),
    ("net-plugin-not-found", "NET/Plugin: No plugin found (libnccl-net.so)", {"plugin": "libnccl-net.so"}),
    ("rdma-retries-exceeded", f"{COMPLETION} status=12 opcode=0 len=0 vendor err 129 (Send) hca mlx5_3",
     {"status": "12", "address": "10.0.0.2<4711>", "device": "mlx5_3"}),
    ("rdma-retries-exceeded", f"{COMPLETION} status=IBV_WC_RETRY_EXC_ERR(12) opcode=S(0) vendor_err=129 hca mlx5_3",
     {"status": "12", "device": "mlx5_3"}),
    ("rdma-flushed", f"{COMPLETION} status=5 opcode=0 len=0 vendor err 249", {"status": "5"}),
    ("rdma-receiver-not-ready", f"{COMPLETION} status=IBV_WC_RNR_RETRY_EXC_ERR(13) opcode=x(0)", {"status": "13"}),
    ("rdma-peer-unreachable",
     "Call to ibv_modify_qp failed with 110 Connection timed out, on dev mlx5_0:1, curr state INIT, local GID index 3",
     {"errno": "Connection timed out", "gid": "3"}),
    ("rdma-gid-refused", "Call to ibv_modify_qp failed with error Invalid argument errno 22", {}),
    ("rdma-netdev-gone", "Call to ibv_modify_qp failed with 101 Network is unreachable, on dev mlx5_0:1", {}),
    ("rdma-port-event", "NET/IB : mlx5_0:1 async fatal event: port error", {"device": "mlx5_0", "event": "port error"}),
    ("rdma-port-event", "NET/IB : mlx5_0:1 async fatal event on QP (0x1): fatal", {"device": "mlx5_0"}),
    ("rdma-port-event", "NET/IB : mlx5_0:1 Got async event : port error", {"event": "port error"}),
    ("gpu-direct-off-for-gpu", "GPU Direct RDMA Disabled for GPU 1b000 / HCA 0 (distance 8 > 5)", {"distance": "8"}),
    ("network-without-gpu-direct", "Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0(1)/Shared", {}),
    ("peer-access-failed", "Could not enable P2P between dev 0(=1b000) and dev 1(=2b000)", {"gpu": "0", "other": "1"}),
    ("peer-access-failed", "failed to peer with device 3(=3b000): 217 peer access is not supported", {"gpu": "3"}),
    ("shared-memory-full",
     "Error: failed to extend /dev/shm/nccl-aB12 to 33030532 bytes, error: No space left on device (28)",
     {"path": "/dev/shm/nccl-aB12", "size": "33030532"}),
    ("shared-memory-failed", "Error while creating shared memory segment /dev/shm/nccl-x (size 9637888)",
     {"size": "9637888"}),
    ("shared-memory-failed", "Error while attaching to shared memory segment /dev/shm/nccl-x (size 1), error: none (2)",
     {"action": "attaching to"}),
    ("shared-memory-removed", "unlink shared memory /dev/shm/nccl-x failed, error: No such file",
     {"path": "/dev/shm/nccl-x"}),
    ("nvls-not-bound", "Failed to bind NVLink SHARP (NVLS) Multicast memory of size 209715200 : CUDA error 401 'x'.",
     {"size": "209715200", "error": "401"}),
    ("imex-not-working", "Cuda failure 800 'operation not permitted'", {"error": "800"}),
    ("gpu-out-of-memory", "Cuda failure 'out of memory'", {}),
    ("no-algorithm-left",
     "Error : no algorithm/protocol available for function AllReduce with datatype ncclFloat32. NCCL_ALGO was set.",
     {"function": "AllReduce", "datatype": "ncclFloat32"}),
    ("pci-path-hidden", "Could not find real path of /sys/class/pci_bus/0000:1b/../../0000:1b:00.0", {}),
    ("start-slow", "Init timings - ncclCommInitRank: rank 0 nranks 2 total 52.9 (kernels 52.1, alloc 0.5)",
     {"seconds": "52.1"}),
]  # fmt: skip


@pytest.mark.parametrize(("id", "text", "values"), ROWS)
def test_every_row(id: str, text: str, values: dict[str, str]) -> None:
    by_id = {each.symptom.id: each for each in symptoms(f"{record('before')}\n{record(text, 'WARN')}\nafter\n")}
    assert id in by_id, list(by_id)
    shown = by_id[id]
    assert values.items() <= shown.values.items()
    assert shown.line == text
    assert "?" not in shown.seen, "a gap"


def test_the_row_that_its_file_decides() -> None:
    (shown,) = symptoms("n01:1:1 [0] transport/nvls.cc:244 NCCL WARN Cuda failure 1 'invalid argument'\n")
    assert (shown.symptom.id, shown.values) == ("nvls-failed", {"error": "1"})


def test_retrying_is_not_giving_up() -> None:
    text = record("socketStartConnect: connect to 10.0.0.2<1> returned Connection refused, retrying (1/34) after sleep")
    assert [each.symptom.id for each in symptoms(text)] == ["connect-retrying"]


def test_a_retried_fallocate_is_no_full_disk() -> None:
    assert symptoms(record("fallocate: Failed to extend /dev/shm/x to 1 bytes, error: EINTR (4) - retrying")) == ()


def test_causes_come_before_consequences_whatever_their_order_in_the_log() -> None:
    text = "\n".join(
        [
            record("Using network Socket"),
            record("socketProgress: Connection closed by remote peer n02<1>", "WARN"),
            record(f"{COMPLETION} status=5 opcode=0", "WARN"),
            record(f"{COMPLETION} status=12 opcode=0", "WARN"),
            record("Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 1b000", "WARN"),
        ]
    )
    assert [each.symptom.id for each in symptoms(text)] == [
        "rdma-retries-exceeded",
        "ranks-share-gpu",
        "peer-closed-connection",
        "rdma-flushed",
        "network-is-tcp",
    ]


def test_what_repeats_is_counted() -> None:
    (shown,) = symptoms((record(f"{COMPLETION} status=12 opcode=0", "WARN") + "\n") * 7)
    assert shown.count == 7


def test_a_healthy_log_has_no_symptom() -> None:
    text = "NCCL version 2.27.5+cuda12.9\n" + log_of(
        "Bootstrap: Using eth0:10.0.0.1<0>",
        "NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB eth0:10.0.0.1<0>",
        "Using network IB",
        "comm 0x1 rank 0 nRanks 16 nNodes 2 localRanks 8 localRank 0 MNNVL 0",
        "Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM/read",
        "Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0/GDRDMA",
        "NET/IB : GPU Direct RDMA Enabled for HCA 0 'mlx5_0'",
        "Init timings - ncclCommInitRank: rank 0 nranks 2 total 0.92 (kernels 0.11, alloc 0.5)",
        "ncclCommInitRank comm 0x1 rank 0 nranks 16 cudaDev 0 busId 1b000 - Init COMPLETE",
    )
    assert [each for each in symptoms(text) if each.symptom.role != "context"] == []


@given(st.lists(st.sampled_from([text for _, text, _ in ROWS]) | st.text(max_size=30), max_size=30))
def test_any_text(parts: list[str]) -> None:
    shown = symptoms("\n".join(parts) + "".join(parts))
    roles = [ROLES.index(each.symptom.role) for each in shown]
    assert roles == sorted(roles)
    assert all(each.count > 0 and each.seen for each in shown)


@given(st.binary(max_size=4000))
def test_any_bytes(raw: bytes) -> None:
    symptoms(raw.decode("utf-8", "replace"))
