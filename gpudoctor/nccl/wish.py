"""What the user asked of `gpudoctor nccl-test`."""

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct, field

from gpudoctor.fleet.messages import may_set
from gpudoctor.knowledge.wording import GIB, MIB

GLOO_MAXIMUM = 64 * MIB
"""gloo moves bytes through the CPU: larger sizes take minutes and show nothing new."""
NCCL_MAXIMUM = 8 * GIB
GLOO_SECONDS_PER_SIZE = 0.4
"""gloo on a busy CPU may take a second for one operation; every size then gets fewer of them. Our rule of thumb."""


class Wish(Struct, frozen=True, kw_only=True):
    """Options of the test, checked. Sizes in bytes, times in seconds."""

    collectives: tuple[str, ...] = ("all_reduce",)
    minimum_bytes: int = 8
    maximum_bytes: int = 0
    """0: 8 GiB (bounded by free GPU memory), on gloo 64 MiB."""
    factor: int = 2
    dtype: Literal["float32", "float16", "bfloat16"] = "float32"
    warmup: int | None = None
    iterations: int | None = None
    """None: `WARMUP` and `ITERATIONS`, on gloo fewer where a size takes long; what the user names is kept to."""
    check: bool = True
    backend: Literal["auto", "nccl", "gloo"] = "auto"
    ranks_per_node: int = 0
    """0: one a GPU; on gloo one a node, two on a single node."""
    timeout: float = 60.0
    """How long the test may stand still before it is ended."""
    interface: str = ""
    master_address: str = ""
    master_port: int = 0
    ranks_share_gpu: bool = False
    settings: Mapping[str, str] = field(default_factory=dict)
    """Set for every rank: this shell's NCCL_*, TORCH_NCCL_*, GLOO_* ... (`forwarded`), and what --interface means."""
    python: str = ""
    """The training interpreter's path on the head; used on every node that has it."""


TORCHRUNS_OWN = "TORCH_NCCL_ASYNC_ERROR_HANDLING"


def forwarded(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables of the head's shell that its ranks get on every node.

    CUDA_VISIBLE_DEVICES is each node's own, and so is where NCCL writes its log. What torchrun sets for its ranks when
    the user does not (local_elastic_agent.py) is no setting of the user's.
    """
    own = {"CUDA_VISIBLE_DEVICES", "NCCL_DEBUG_FILE"}
    if "TORCHELASTIC_RUN_ID" in environment and environment.get(TORCHRUNS_OWN) == "1":
        own.add(TORCHRUNS_OWN)
    return {name: value for name, value in sorted(environment.items()) if may_set(name) and name not in own}


def interface_settings(interface: str) -> dict[str, str]:
    """What --interface means to NCCL (exact name) and gloo."""
    if not interface:
        return {}
    return {"NCCL_SOCKET_IFNAME": f"={interface}", "GLOO_SOCKET_IFNAME": interface}
