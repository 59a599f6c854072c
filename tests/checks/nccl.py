"""Cases of the checks in checks/gpudoctor_checks/nccl/ about names and values of settings."""

from typing import Any

from gpudoctor.snapshot import Snapshot, absent
from gpudoctor.testing.cases import error, info, silent, skipped, warning
from gpudoctor.testing.machines import but, h100_node, rtx_4090_node, t4_node, unread
from gpudoctor.testing.networks import nccl_files, with_network

H100, T4, RTX = h100_node(), t4_node(), rtx_4090_node()
NO_ENVIRONMENT = but(H100, "environment", unread("environment"))


def setting(machine: Snapshot = H100, /, **variables: str) -> Snapshot:
    """The machine with these variables in its environment."""
    return but(machine, "environment", variables)


def in_file(machine: Snapshot = H100, /, **variables: str) -> Snapshot:
    """The machine with these lines in /etc/nccl.conf."""
    return with_network(machine, nccl_files=nccl_files(system=variables))


def without(machine: Snapshot, **facts: Any) -> Snapshot:
    """The machine with facts of its network unread."""
    return with_network(machine, **{name: unread(source) for name, source in facts.items()})


def with_nccl(machine: Snapshot, *version: int) -> Snapshot:
    """The machine with a torch that brings this NCCL."""
    return but(but(machine, "training.torch.nccl_version", version), "training.libraries", ())


NO_FILES = without(H100, nccl_files="/etc/nccl.conf")

CASES = {
    "nccl-variable-unknown": [
        warning(setting(NCCL_TIMEOUT="1800"), "NCCL_TIMEOUT", "init_process_group(timeout=", runs="unset NCCL_TIMEOUT"),
        warning(
            setting(NCCL_SOCKET_INFAME="eth0"),
            "nothing reads it; the nearest known name is NCCL_SOCKET_IFNAME",
            runs=("unset NCCL_SOCKET_INFAME", "export NCCL_SOCKET_IFNAME=eth0"),
        ),
        warning(
            in_file(NCCL_SHM_DISABLED="1"),
            "NCCL_SHM_DISABLED",
            "/etc/nccl.conf",
            "without the D",
            runs=(
                "sed -i '/^NCCL_SHM_DISABLED=/d' /etc/nccl.conf",
                r"printf '%s\n' NCCL_SHM_DISABLE=1 >> /etc/nccl.conf",
            ),
        ),
        silent(setting(NCCL_IB_TIMEOUT="22", NCCL_IBEXT_DISABLE="1", TORCH_NCCL_BLOCKING_WAIT="1")),
        # a name that only this library knows: newer than our table
        silent(with_network(setting(NCCL_QUITE_NEW="1"), nccl_names=("NCCL_QUITE_NEW",))),
        skipped(NO_ENVIRONMENT, without(setting(NCCL_QUITE_NEW="1"), nccl_names="libnccl.so.2")),
    ],
    "nccl-variable-too-new": [
        warning(
            with_nccl(setting(NCCL_IB_ADDR_RANGE="10.0.0.0/16"), 2, 20, 5),
            "NCCL_IB_ADDR_RANGE",
            "2.21.5",
            "2.20.5",
            runs="unset NCCL_IB_ADDR_RANGE",
        ),
        silent(with_nccl(setting(NCCL_IB_ADDR_RANGE="10.0.0.0/16"), 2, 21, 5)),
        skipped(
            but(
                but(setting(NCCL_IB_ADDR_RANGE="10.0.0.0/16"), "training.torch", unread("import torch")),
                "training.libraries",
                unread("worker python_facts"),
            )
        ),
    ],
    "nccl-variable-gone": [
        info(setting(NCCL_WORK_FIFO_DEPTH="65536"), "2.21.5 was the last", "2.29.7"),
        silent(with_nccl(setting(NCCL_WORK_FIFO_DEPTH="65536"), 2, 21, 5)),
        skipped(NO_ENVIRONMENT),
    ],
    "nccl-value-misread": [
        warning(setting(NCCL_IB_DISABLE="true"), "NCCL_IB_DISABLE=true", "read as 0", runs="export NCCL_IB_DISABLE=1"),
        warning(
            in_file(NCCL_BUFFSIZE="8MB", NCCL_IB_TC="010", NCCL_IB_SL="9" * 30),
            "NCCL_BUFFSIZE=8MB",
            "/etc/nccl.conf",
            "read as 8",
            runs=r"printf '%s\n' NCCL_BUFFSIZE=8388608 >> /etc/nccl.conf",
            times=3,
        ),
        silent(setting(NCCL_IB_DISABLE="false", NCCL_BUFFSIZE="0x800000", NCCL_IB_TC="", NCCL_IB_SL=" 3 ")),
        # Asked of NCCL: 2.31.2 takes 0, 2.32.3 its default.
        silent(with_nccl(setting(NCCL_NVLS_ENABLE="off"), 2, 31, 2)),
        warning(
            with_nccl(setting(NCCL_NVLS_ENABLE="off"), 2, 32, 3), "its default, 2", runs="export NCCL_NVLS_ENABLE=0"
        ),
        warning(with_nccl(setting(NCCL_CUMEM_ENABLE="no"), 2, 32, 3), "read as its default"),
        silent(with_nccl(setting(NCCL_IB_DISABLE="false"), 2, 32, 3)),
        skipped(NO_ENVIRONMENT),
    ],
    "nccl-word-unknown": [
        warning(setting(NCCL_DEBUG="DEBUG"), "'DEBUG'", "INFO", runs="unset NCCL_DEBUG"),
        warning(setting(NCCL_NET_GDR_LEVEL="phb"), "'phb'", runs="export NCCL_NET_GDR_LEVEL=PHB"),
        warning(with_nccl(setting(NCCL_DEBUG="ATTN"), 2, 31, 2), "'ATTN'"),
        silent(with_nccl(setting(NCCL_DEBUG="ATTN"), 2, 32, 3)),
        silent(setting(NCCL_DEBUG="info", NCCL_DEBUG_SUBSYS="^net,ENV", NCCL_NET_GDR_LEVEL="2", NCCL_P2P_LEVEL="NVL")),
        skipped(NO_ENVIRONMENT),
    ],
    "nccl-debug-file-tilde": [
        warning(setting(NCCL_DEBUG_FILE="~/nccl.log"), "~/nccl.log"),
        silent(setting(NCCL_DEBUG_FILE="/tmp/nccl.%h.%p")),
        skipped(NO_ENVIRONMENT),
    ],
    "nccl-comm-id-left": [
        warning(setting(NCCL_COMM_ID="192.0.2.11:29400"), "192.0.2.11:29400", runs="unset NCCL_COMM_ID"),
        warning(setting(NCCL_COMM_ID="10.99.0.1:29400"), "10.99.0.1:29400"),  # this release takes lo
        error(with_nccl(setting(NCCL_COMM_ID="10.99.0.1:29400"), 2, 28, 9), "no interface is in the subnet"),
        error(setting(NCCL_COMM_ID=""), "gives no address", runs="unset NCCL_COMM_ID"),
        silent(but(setting(NCCL_COMM_ID="192.0.2.11:29400"), "training.torch_files", absent("sys.path", "no torch"))),
        skipped(NO_ENVIRONMENT),
    ],
    "nccl-hostid-constant": [
        warning(setting(NCCL_HOSTID="cluster"), "'cluster'", "node-1"),
        silent(setting(NCCL_HOSTID="rack7-node-1")),
        skipped(but(setting(NCCL_HOSTID="cluster"), "host.hostname", unread("gethostname"))),
    ],
    "nccl-debug-left-on": [
        info(
            setting(NCCL_DEBUG="INFO", NCCL_DEBUG_SUBSYS="ALL"),
            "NCCL_DEBUG=INFO for ALL",
            runs="export NCCL_DEBUG=WARN",
        ),
        silent(setting(NCCL_DEBUG="WARN")),
        skipped(NO_ENVIRONMENT),
    ],
    "nccl-channels-pinned": [
        info(
            setting(NCCL_MIN_NCHANNELS="4", NCCL_BUFFSIZE="8388608"), "NCCL_MIN_NCHANNELS=4 and NCCL_BUFFSIZE=8388608"
        ),
        silent(setting(NCCL_MIN_NCHANNELS="")),
        skipped(NO_ENVIRONMENT),
    ],
    "nccl-ll128-forced": [
        warning(setting(NCCL_PROTO="LL128,Simple"), "LL128,Simple"),
        silent(setting(NCCL_PROTO="^LL128")),
        skipped(NO_ENVIRONMENT),
    ],
    "nccl-algorithm-forced": [
        info(setting(NCCL_ALGO="Ring"), "NCCL_ALGO=Ring"),
        silent(setting(NCCL_DEBUG="WARN")),
        skipped(NO_ENVIRONMENT),
    ],
    "nccl-ras-off": [
        info(setting(NCCL_RAS_ENABLE="0"), "NCCL_RAS_ENABLE=0"),
        silent(with_nccl(setting(NCCL_RAS_ENABLE="0"), 2, 21, 5)),
        skipped(
            but(
                but(setting(NCCL_RAS_ENABLE="0"), "training.torch", unread("import torch")),
                "training.libraries",
                unread("worker python_facts"),
            )
        ),
    ],
}
