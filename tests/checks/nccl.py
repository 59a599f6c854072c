"""Cases of the checks in checks/gpudoctor_checks/nccl/ about names and values of settings."""

from typing import Any

from gpudoctor.snapshot import Snapshot, absent, read
from gpudoctor.testing.cases import info, silent, skipped, warning
from gpudoctor.testing.machines import but, h100_node, rtx_4090_node, t4_node, unread
from gpudoctor.testing.networks import nccl_files, with_network

H100, T4, RTX = h100_node(), t4_node(), rtx_4090_node()
NO_ENVIRONMENT = but(H100, "environment", unread("environment"))


def setting(machine: Snapshot = H100, /, **variables: str) -> Snapshot:
    """The machine with these variables in its environment."""
    return but(machine, "environment", read("environment of gpudoctor", variables))


def in_file(machine: Snapshot = H100, /, **variables: str) -> Snapshot:
    """The machine with these lines in /etc/nccl.conf."""
    return with_network(machine, nccl_files=nccl_files(system=variables))


def without(machine: Snapshot, **facts: Any) -> Snapshot:
    """The machine with facts of its network unread."""
    return with_network(machine, **{name: unread(source) for name, source in facts.items()})


def with_nccl(machine: Snapshot, *version: int) -> Snapshot:
    """The machine with a torch that brings this NCCL."""
    return but(but(machine, "training.torch.found.nccl_version", version), "training.libraries", read("test", ()))


NO_FILES = without(H100, nccl_files="/etc/nccl.conf")

CASES = [
    warning(
        "nccl-variable-unknown",
        setting(NCCL_TIMEOUT="1800"),
        "NCCL_TIMEOUT",
        "init_process_group(timeout=",
        runs="unset NCCL_TIMEOUT",
    ),
    warning(
        "nccl-variable-unknown",
        setting(NCCL_SOCKET_INFAME="eth0"),
        "nothing reads it; the nearest known name is NCCL_SOCKET_IFNAME",
        runs=("unset NCCL_SOCKET_INFAME", "export NCCL_SOCKET_IFNAME=eth0"),
    ),
    warning(
        "nccl-variable-unknown",
        in_file(NCCL_SHM_DISABLED="1"),
        "NCCL_SHM_DISABLED",
        "/etc/nccl.conf",
        "without the D",
        runs=("sed -i '/^NCCL_SHM_DISABLED=/d' /etc/nccl.conf", r"printf '%s\n' NCCL_SHM_DISABLE=1 >> /etc/nccl.conf"),
    ),
    silent(
        "nccl-variable-unknown", setting(NCCL_IB_TIMEOUT="22", NCCL_IBEXT_DISABLE="1", TORCH_NCCL_BLOCKING_WAIT="1")
    ),
    # a name that only this library knows: newer than our table
    silent(
        "nccl-variable-unknown",
        with_network(setting(NCCL_QUITE_NEW="1"), nccl_names=read("libnccl.so.2", ("NCCL_QUITE_NEW",))),
    ),
    skipped("nccl-variable-unknown", NO_ENVIRONMENT, without(setting(NCCL_QUITE_NEW="1"), nccl_names="libnccl.so.2")),
    warning(
        "nccl-variable-too-new",
        with_nccl(setting(NCCL_IB_ADDR_RANGE="10.0.0.0/16"), 2, 20, 5),
        "NCCL_IB_ADDR_RANGE",
        "2.21.5",
        "2.20.5",
        runs="unset NCCL_IB_ADDR_RANGE",
    ),
    silent("nccl-variable-too-new", with_nccl(setting(NCCL_IB_ADDR_RANGE="10.0.0.0/16"), 2, 21, 5)),
    skipped(
        "nccl-variable-too-new",
        but(
            but(setting(NCCL_IB_ADDR_RANGE="10.0.0.0/16"), "training.torch", unread("import torch")),
            "training.libraries",
            unread("worker python_facts"),
        ),
    ),
    info("nccl-variable-gone", setting(NCCL_WORK_FIFO_DEPTH="65536"), "2.21.5 was the last", "2.29.7"),
    silent("nccl-variable-gone", with_nccl(setting(NCCL_WORK_FIFO_DEPTH="65536"), 2, 21, 5)),
    skipped("nccl-variable-gone", NO_ENVIRONMENT),
    warning(
        "nccl-value-misread",
        setting(NCCL_IB_DISABLE="true"),
        "NCCL_IB_DISABLE=true",
        "read as 0",
        runs="export NCCL_IB_DISABLE=1",
    ),
    warning(
        "nccl-value-misread",
        in_file(NCCL_BUFFSIZE="8MB", NCCL_IB_TC="010", NCCL_IB_SL="9" * 30),
        "NCCL_BUFFSIZE=8MB",
        "/etc/nccl.conf",
        "read as 8",
        runs=r"printf '%s\n' NCCL_BUFFSIZE=8388608 >> /etc/nccl.conf",
        times=3,
    ),
    silent(
        "nccl-value-misread",
        setting(NCCL_IB_DISABLE="false", NCCL_BUFFSIZE="0x800000", NCCL_IB_TC="", NCCL_IB_SL=" 3 "),
    ),
    skipped("nccl-value-misread", NO_ENVIRONMENT),
    warning("nccl-word-unknown", setting(NCCL_DEBUG="DEBUG"), "'DEBUG'", "INFO", runs="unset NCCL_DEBUG"),
    warning("nccl-word-unknown", setting(NCCL_NET_GDR_LEVEL="phb"), "'phb'", runs="export NCCL_NET_GDR_LEVEL=PHB"),
    silent(
        "nccl-word-unknown",
        setting(NCCL_DEBUG="info", NCCL_DEBUG_SUBSYS="^net,ENV", NCCL_NET_GDR_LEVEL="2", NCCL_P2P_LEVEL="NVL"),
    ),
    skipped("nccl-word-unknown", NO_ENVIRONMENT),
    warning("nccl-debug-file-tilde", setting(NCCL_DEBUG_FILE="~/nccl.log"), "~/nccl.log"),
    silent("nccl-debug-file-tilde", setting(NCCL_DEBUG_FILE="/tmp/nccl.%h.%p")),
    skipped("nccl-debug-file-tilde", NO_ENVIRONMENT),
    warning(
        "nccl-comm-id-left", setting(NCCL_COMM_ID="192.0.2.11:29400"), "192.0.2.11:29400", runs="unset NCCL_COMM_ID"
    ),
    silent(
        "nccl-comm-id-left",
        but(setting(NCCL_COMM_ID="192.0.2.11:29400"), "training.torch_files", absent("sys.path", "no torch")),
    ),
    skipped("nccl-comm-id-left", NO_ENVIRONMENT),
    warning("nccl-hostid-constant", setting(NCCL_HOSTID="cluster"), "'cluster'", "node-1"),
    silent("nccl-hostid-constant", setting(NCCL_HOSTID="rack7-node-1")),
    skipped("nccl-hostid-constant", but(setting(NCCL_HOSTID="cluster"), "host.hostname", unread("gethostname"))),
    info(
        "nccl-debug-left-on",
        setting(NCCL_DEBUG="INFO", NCCL_DEBUG_SUBSYS="ALL"),
        "NCCL_DEBUG=INFO for ALL",
        runs="export NCCL_DEBUG=WARN",
    ),
    silent("nccl-debug-left-on", setting(NCCL_DEBUG="WARN")),
    skipped("nccl-debug-left-on", NO_ENVIRONMENT),
    info(
        "nccl-channels-pinned",
        setting(NCCL_MIN_NCHANNELS="4", NCCL_BUFFSIZE="8388608"),
        "NCCL_MIN_NCHANNELS=4 and NCCL_BUFFSIZE=8388608",
    ),
    silent("nccl-channels-pinned", setting(NCCL_MIN_NCHANNELS="")),
    skipped("nccl-channels-pinned", NO_ENVIRONMENT),
    warning("nccl-ll128-forced", setting(NCCL_PROTO="LL128,Simple"), "LL128,Simple"),
    silent("nccl-ll128-forced", setting(NCCL_PROTO="^LL128")),
    skipped("nccl-ll128-forced", NO_ENVIRONMENT),
    info("nccl-algorithm-forced", setting(NCCL_ALGO="Ring"), "NCCL_ALGO=Ring"),
    silent("nccl-algorithm-forced", setting(NCCL_DEBUG="WARN")),
    skipped("nccl-algorithm-forced", NO_ENVIRONMENT),
    info("nccl-ras-off", setting(NCCL_RAS_ENABLE="0"), "NCCL_RAS_ENABLE=0"),
    silent("nccl-ras-off", with_nccl(setting(NCCL_RAS_ENABLE="0"), 2, 21, 5)),
    skipped(
        "nccl-ras-off",
        but(
            but(setting(NCCL_RAS_ENABLE="0"), "training.torch", unread("import torch")),
            "training.libraries",
            unread("worker python_facts"),
        ),
    ),
]
