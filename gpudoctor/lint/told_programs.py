"""Whose options a start's program takes, by how it is started and what it is told."""

import re

from gpudoctor.lint.model import LintJob, LintLaunch
from gpudoctor.lint.told_files import everywhere
from gpudoctor.lint.told_options import ToldOption

TRANSFORMERS = frozenset(("per_device_train_batch_size", "output_dir", "num_train_epochs"))
"""Names of which transformers' options have at least one."""
_MEGATRON = frozenset(("max_position_embeddings", "tensor_model_parallel_size", "pipeline_model_parallel_size"))
"""The same of Megatron's, beside micro_batch_size."""


def program_of(job: LintJob, launch: LintLaunch) -> str:
    """Empty where that is not told."""
    return _program(launch, everywhere(job, launch))


def _program(launch: LintLaunch, options: dict[str, ToldOption]) -> str:
    name = launch.script.shown if launch.script is not None else ""
    if launch.launcher == "axolotl" or name.startswith("axolotl.") or launch.entry.startswith("axolotl"):
        return "axolotl"
    if launch.entry.startswith(("llamafactory-cli", "lmf")) or re.search(r"llamafactory|LLaMA-Factory", name):
        return "llamafactory"
    if launch.entry == "tune run":
        return "torchtune"
    if "parallelism.pp_engine" in options or options.keys() >= {"parallelism.dp", "parallelism.tp", "parallelism.pp"}:
        return "nanotron"
    if name.startswith("torchtitan.") or any(option.startswith("parallelism.") for option in options):
        return "torchtitan"
    if name.startswith("verl.") or "actor_rollout_ref.actor.ppo_mini_batch_size" in options:
        return "verl"
    if launch.entry == "composer":
        return "composer"
    if options.keys() >= {"parallel_backend", "dp_degree"}:
        return "finetrainers"
    if "micro_batch_size" in options and options.keys() & _MEGATRON:
        return "" if options.keys() & {"yaml_cfg", "deepspeed", "config"} else "megatron"
    return "transformers" if TRANSFORMERS & options.keys() else ""
