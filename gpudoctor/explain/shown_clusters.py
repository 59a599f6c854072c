"""Rows of `explain/shown_by.py` about what lies between machines, and about what is installed twice on one."""

from gpudoctor.command import command
from gpudoctor.explain.telling import ADDRESSES, BRIDGE, Telling

OF_CLUSTERS: tuple[Telling, ...] = (
    Telling(
        ("scheduler-refused",),
        (
            r"fulfill resource requests? [^\n]{0,120}'node:(?P<asked>[\w.:-]{2,80}?)': 0\.001",
            r"onnect(?:ing|ed) to (?:existing )?Ray cluster[^\n]{0,60}?(?P<head>\d{1,3}(?:\.\d{1,3}){3}):\d",
        ),
        "'node:{asked}' asks Ray for the node of that address, and no node of the cluster is known by it: one machine "
        "with two addresses, as a rule. Ray's head is known here by {head}: let the program name the same "
        "(export VLLM_HOST_IP={head} on that node, each node its own), or start Ray there by the other "
        "(ray start --node-ip-address={asked}). GPUs are not what is missing.",
        (command("ray list nodes"),),
    ),
    Telling(
        ("scheduler-refused",),
        (r"fulfill resource requests? [^\n]{0,120}'node:(?P<asked>[\w.:-]{2,80}?)': 0\.001",),
        "'node:{asked}' asks Ray for the node of that address, and no node of the cluster is known by it: hold it "
        "against the addresses in `ray list nodes`, and let program and `ray start` name the same (export "
        "VLLM_HOST_IP=ADDRESS on each node, ray start --node-ip-address=ADDRESS).",
        (command("ray list nodes"),),
    ),
    *(
        Telling(
            ("version-mismatch", "library-missing"),
            (rf"\bnvidia-nccl-cu{old}[= ]+\d", rf"\bnvidia-nccl-cu{other}[= ]+\d"),
            f"NCCL is installed twice here, by nvidia-nccl-cu{old} and nvidia-nccl-cu{other}, and both put their "
            "library into one folder (site-packages/nvidia/nccl): torch finds the older one. Take the older CUDA's "
            "packages out, and install the other's NCCL again, which went with them.",
            (
                command("python -m pip uninstall {:name}", f"nvidia-nccl-cu{old}"),
                command("python -m pip install --force-reinstall --no-deps {:name}", f"nvidia-nccl-cu{other}"),
            ),
            own=r"undefined symbol: p?nccl",
        )
        for old, other in (("11", "12"), ("11", "13"), ("12", "13"))
    ),
    Telling(
        ("firewall-ephemeral-ports", "program-error", "master-unreachable"),
        (
            r"NCCL INFO (?:Bootstrap|NET/Socket) ?: Using \[?0?\]?:?(?P<interface>[\w.-]{1,15}):172\.17\.\d{1,3}\.\d",
            r"(?i)connect[^\n]{0,40}(?P<address>172\.17\.\d{1,3}\.\d{1,3})[^\n]{0,40}(?:refused|timed out|no route)",
        ),
        "{address} is of docker's own bridge network (172.17.0.0/16), which every host has for itself: from a "
        "container of another host it is not reached. Start the containers with --network host (docker run), or put "
        "them on an overlay network that spans the hosts.",
        ADDRESSES,
        unless=BRIDGE,
    ),
)

__all__ = ["OF_CLUSTERS"]
