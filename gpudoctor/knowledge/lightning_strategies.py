"""The words that Lightning's strategy= has taken, in any release: one that is none of them is a slip of the keyboard.

Those of today from the registrations of Lightning 2.6.6 (lightning/pytorch/strategies, fabric/strategies), the others
from the sources of 1.5 to 1.9 and of the packages that bring one along. Which of the old ones are gone,
superseded.py says.
"""

import difflib

from gpudoctor.knowledge.superseded import EVERY

_START = ("ddp", "ddp_spawn", "ddp_fork", "ddp_notebook")
TODAY = (
    "auto",
    *_START,
    *(f"{name}_find_unused_parameters_{flag}" for name in _START for flag in ("true", "false")),
    *("fsdp", "fsdp_cpu_offload"),
    *("deepspeed", "deepspeed_stage_1", "deepspeed_stage_1_offload", "deepspeed_stage_2", "deepspeed_stage_2_offload"),
    *("deepspeed_stage_3", "deepspeed_stage_3_offload", "deepspeed_stage_3_offload_nvme"),
    *("single_device", "single_xla", "xla", "xla_debug", "xla_fsdp"),
)
EARLIER = (
    *("dp", "ddp2", "ddp_cpu", "horovod", "bagua", "collaborative", "hivemind", "colossalai", "tpu_spawn"),
    *(
        "tpu_spawn_debug",
        "single_tpu",
        "hpu_parallel",
        "hpu_single",
        "single_hpu",
        "hpu_fsdp",
        "hpu_ddp",
        "hpu_deepspeed",
    ),
    *("ipu_strategy", "ipu", "tpu", "fsdp_native", "fsdp_native_full_shard_offload", "ddp_fully_sharded"),
    *("ddp_sharded", "ddp_sharded_spawn", "ddp_sharded_find_unused_parameters_false"),
    *("ddp_sharded_spawn_find_unused_parameters_false", "smddp", "xpu", "ddp_xpu", "modelparallel"),
)
LIKENESS = 0.6
_KNOWN = frozenset((*TODAY, *EARLIER, *(superseded.name for superseded in EVERY if superseded.kind == "strategy")))


def meant(word: str) -> str:
    """The strategy of today that an unknown word is nearest to; empty for a known word, and for one like none."""
    lower = word.lower()
    if lower in _KNOWN or not word:
        return ""
    return next(iter(difflib.get_close_matches(lower, TODAY, 1, LIKENESS)), "")
