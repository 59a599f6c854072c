"""Cases of the checks in checks/gpudoctor_checks/nccl/ about names and values of settings."""

from typing import Any

from gpudoctor.snapshot import Snapshot, absent, read
from tests.build import but, h100_node, rtx_4090_node, t4_node, unread
from tests.build_network import nccl_files, with_network
from tests.cases import Case

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
    Case(
        "nccl-variable-unknown",
        fires=setting(NCCL_TIMEOUT="1800"),
        silent=setting(NCCL_IB_TIMEOUT="22", NCCL_IBEXT_DISABLE="1", TORCH_NCCL_BLOCKING_WAIT="1"),
        unread=NO_ENVIRONMENT,
        severity="warning",
        says=("NCCL_TIMEOUT", "init_process_group(timeout="),
        commands=("unset NCCL_TIMEOUT",),
    ),
    Case(
        "nccl-variable-unknown",
        fires=setting(NCCL_SOCKET_INFAME="eth0"),
        # a name that only this library knows: newer than our table
        silent=with_network(setting(NCCL_QUITE_NEW="1"), nccl_names=read("libnccl.so.2", ("NCCL_QUITE_NEW",))),
        unread=without(setting(NCCL_QUITE_NEW="1"), nccl_names="libnccl.so.2"),
        severity="warning",
        says=("nothing reads it; the nearest known name is NCCL_SOCKET_IFNAME",),
        commands=("unset NCCL_SOCKET_INFAME", "export NCCL_SOCKET_IFNAME=eth0"),
    ),
    Case(
        "nccl-variable-unknown",
        fires=in_file(NCCL_SHM_DISABLED="1"),
        unread=NO_FILES,
        severity="warning",
        says=("NCCL_SHM_DISABLED", "/etc/nccl.conf", "without the D"),
        commands=(
            "sed -i '/^NCCL_SHM_DISABLED=/d' /etc/nccl.conf",
            r"printf '%s\n' NCCL_SHM_DISABLE=1 >> /etc/nccl.conf",
        ),
    ),
    Case(
        "nccl-variable-too-new",
        fires=with_nccl(setting(NCCL_IB_ADDR_RANGE="10.0.0.0/16"), 2, 20, 5),
        silent=with_nccl(setting(NCCL_IB_ADDR_RANGE="10.0.0.0/16"), 2, 21, 5),
        unread=but(
            but(setting(NCCL_IB_ADDR_RANGE="10.0.0.0/16"), "training.torch", unread("import torch")),
            "training.libraries",
            unread("worker python_facts"),
        ),
        severity="warning",
        says=("NCCL_IB_ADDR_RANGE", "2.21.5", "2.20.5"),
        commands=("unset NCCL_IB_ADDR_RANGE",),
    ),
    Case(
        "nccl-variable-gone",
        fires=setting(NCCL_WORK_FIFO_DEPTH="65536"),
        silent=with_nccl(setting(NCCL_WORK_FIFO_DEPTH="65536"), 2, 21, 5),
        unread=NO_ENVIRONMENT,
        severity="info",
        says=("2.21.5 was the last", "2.29.7"),
    ),
    Case(
        "nccl-value-misread",
        fires=setting(NCCL_IB_DISABLE="true"),
        silent=setting(NCCL_IB_DISABLE="false", NCCL_BUFFSIZE="0x800000", NCCL_IB_TC="", NCCL_IB_SL=" 3 "),
        unread=NO_ENVIRONMENT,
        severity="warning",
        says=("NCCL_IB_DISABLE=true", "read as 0"),
        commands=("export NCCL_IB_DISABLE=1",),
    ),
    Case(
        "nccl-value-misread",
        fires=in_file(NCCL_BUFFSIZE="8MB", NCCL_IB_TC="010", NCCL_IB_SL="9" * 30),
        unread=NO_FILES,
        severity="warning",
        says=("NCCL_BUFFSIZE=8MB", "/etc/nccl.conf", "read as 8"),
        commands=(r"printf '%s\n' NCCL_BUFFSIZE=8388608 >> /etc/nccl.conf",),
        times=3,
    ),
    Case(
        "nccl-word-unknown",
        fires=setting(NCCL_DEBUG="DEBUG"),
        silent=setting(NCCL_DEBUG="info", NCCL_DEBUG_SUBSYS="^net,ENV", NCCL_NET_GDR_LEVEL="2", NCCL_P2P_LEVEL="NVL"),
        unread=NO_ENVIRONMENT,
        severity="warning",
        says=("'DEBUG'", "INFO"),
        commands=("unset NCCL_DEBUG",),
    ),
    Case(
        "nccl-word-unknown",
        fires=setting(NCCL_NET_GDR_LEVEL="phb"),
        severity="warning",
        says=("'phb'",),
        commands=("export NCCL_NET_GDR_LEVEL=PHB",),
    ),
    Case(
        "nccl-debug-file-tilde",
        fires=setting(NCCL_DEBUG_FILE="~/nccl.log"),
        silent=setting(NCCL_DEBUG_FILE="/tmp/nccl.%h.%p"),
        unread=NO_ENVIRONMENT,
        severity="warning",
        says=("~/nccl.log",),
    ),
    Case(
        "nccl-comm-id-left",
        fires=setting(NCCL_COMM_ID="192.0.2.11:29400"),
        silent=but(setting(NCCL_COMM_ID="192.0.2.11:29400"), "training.torch_files", absent("sys.path", "no torch")),
        unread=NO_ENVIRONMENT,
        severity="warning",
        says=("192.0.2.11:29400",),
        commands=("unset NCCL_COMM_ID",),
    ),
    Case(
        "nccl-hostid-constant",
        fires=setting(NCCL_HOSTID="cluster"),
        silent=setting(NCCL_HOSTID="rack7-node-1"),
        unread=but(setting(NCCL_HOSTID="cluster"), "host.hostname", unread("gethostname")),
        severity="warning",
        says=("'cluster'", "node-1"),
    ),
    Case(
        "nccl-debug-left-on",
        fires=setting(NCCL_DEBUG="INFO", NCCL_DEBUG_SUBSYS="ALL"),
        silent=setting(NCCL_DEBUG="WARN"),
        unread=NO_ENVIRONMENT,
        severity="info",
        says=("NCCL_DEBUG=INFO for ALL",),
        commands=("export NCCL_DEBUG=WARN",),
    ),
    Case(
        "nccl-channels-pinned",
        fires=setting(NCCL_MIN_NCHANNELS="4", NCCL_BUFFSIZE="8388608"),
        silent=setting(NCCL_MIN_NCHANNELS=""),
        unread=NO_ENVIRONMENT,
        severity="info",
        says=("NCCL_MIN_NCHANNELS=4 and NCCL_BUFFSIZE=8388608",),
    ),
    Case(
        "nccl-ll128-forced",
        fires=setting(NCCL_PROTO="LL128,Simple"),
        silent=setting(NCCL_PROTO="^LL128"),
        unread=NO_ENVIRONMENT,
        severity="warning",
        says=("LL128,Simple",),
    ),
    Case(
        "nccl-algorithm-forced",
        fires=setting(NCCL_ALGO="Ring"),
        silent=setting(NCCL_DEBUG="WARN"),
        unread=NO_ENVIRONMENT,
        severity="info",
        says=("NCCL_ALGO=Ring",),
    ),
    Case(
        "nccl-ras-off",
        fires=setting(NCCL_RAS_ENABLE="0"),
        silent=with_nccl(setting(NCCL_RAS_ENABLE="0"), 2, 21, 5),
        unread=but(
            but(setting(NCCL_RAS_ENABLE="0"), "training.torch", unread("import torch")),
            "training.libraries",
            unread("worker python_facts"),
        ),
        severity="info",
        says=("NCCL_RAS_ENABLE=0",),
    ),
]
