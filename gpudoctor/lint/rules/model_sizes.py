"""Rules of what a program cuts in parts, so that one number must divide another: W01 to W03."""

import math
from collections.abc import Iterator

from gpudoctor.lazy import lazy_re
from gpudoctor.lint.model import LintJob, LintLaunch
from gpudoctor.lint.rule import LintFinding, rule
from gpudoctor.lint.told_files import with_options
from gpudoctor.lint.told_options import ToldOption, is_whole, world_of

Told = dict[str, ToldOption]
_MEGATRON = ("tensor_model_parallel_size", "pipeline_model_parallel_size", "context_parallel_size")
_TITAN = ("data_parallel_replicate_degree", "data_parallel_shard_degree", "context_parallel_degree",
          "tensor_parallel_degree", "pipeline_parallel_degree")  # fmt: skip
_GPT = (
    "torchrun --standalone --nproc_per_node=8 pretrain_gpt.py --tensor-model-parallel-size {} "
    "--pipeline-model-parallel-size {} --num-layers {} --hidden-size 1024 --num-attention-heads {} --seq-length 1024 "
    "--max-position-embeddings 1024 --micro-batch-size {} --global-batch-size {}\n"
)
_PPO = (
    "python3 -m verl.trainer.main_ppo actor_rollout_ref.rollout.tensor_model_parallel_size={} "
    "trainer.n_gpus_per_node=4 trainer.nnodes=1\n"
)


def _of(options: Told, name: str, *groups: str) -> ToldOption | None:
    """The option by its own name, or below one of these groups of hydra's."""
    return next((options[each] for each in (name, *(f"{group}.{name}" for group in groups)) if each in options), None)


def _world(job: LintJob, launch: LintLaunch, options: Told) -> int | None:
    """Ranks, as NeMo's and verl's own options count them, else as the launcher starts them."""
    for group, each, nodes in (("trainer", "n_gpus_per_node", "nnodes"), ("trainer", "devices", "num_nodes")):
        option = options.get(f"{group}.{each}")
        if option is not None:
            of_nodes = options.get(f"{group}.{nodes}")
            count = of_nodes.number if of_nodes is not None else 1
            return option.number * count if option.number and count else None
    return world_of(job, launch)


def _model(options: Told) -> tuple[int, list[ToldOption]]:
    """Ranks that hold one copy of Megatron's model, and the options that say so; 0 where one of them is not known."""
    told_options = [
        option for name in _MEGATRON if (option := _of(options, name, "model", "policy.megatron_cfg")) is not None
    ]
    return (
        (math.prod(told_option.number or 0 for told_option in told_options), told_options) if told_options else (0, [])
    )


@rule(
    "W01",
    title="The ranks are a multiple of those that one copy of the model takes",
    source="Megatron-LM, megatron/training/arguments.py: world size is not divisible by total_model_size; torchtitan,"
    " ParallelDims: Invalid parallel dims; verl: rollout world size is not divisible by infer_tp",
    bad=(
        _GPT.format(4, 4, 32, 32, 1, 64),
        "torchrun --standalone --nproc_per_node=8 -m torchtitan.train --parallelism.data_parallel_shard_degree 8"
        " --parallelism.tensor_parallel_degree 2\n",
        _PPO.format(8),
    ),
    good=(
        _GPT.format(4, 2, 32, 32, 1, 64),
        "torchrun --standalone --nproc_per_node=8 -m torchtitan.train --parallelism.data_parallel_shard_degree=-1"
        " --parallelism.tensor_parallel_degree 2\n",
        _PPO.format(2),
    ),
)
def model_larger_than_world(job: LintJob) -> Iterator[LintFinding]:
    """Parallel degrees multiply: tensor 4 and pipeline 4 take 16 ranks for one copy of the model. The ranks that are
    left hold further copies, so their number must be a multiple."""
    for launch, options in with_options(job):
        world = _world(job, launch, options)
        if not world:
            continue
        needs, told_options = _model(options)
        if not needs:
            told_options = [
                each for name in _TITAN if (each := options.get(f"parallelism.{name}")) is not None and each.number
            ]
            needs = math.prod(told_option.number or 1 for told_option in told_options)
        rollout = options.get("actor_rollout_ref.rollout.tensor_model_parallel_size")
        if not told_options and rollout is not None and rollout.number:
            needs, told_options = rollout.number, [rollout]
        if not needs or world % needs == 0:
            continue
        product = " x ".join(f"{told_option.written} {told_option.number}" for told_option in told_options)
        yield LintFinding(
            span=told_options[0].word.span,
            summary=f"{product} takes {needs} ranks for one copy of the model, and {world} are started",
            happens=f"It ends at once: {world} ranks are no multiple of {needs}.",
            fix=f"Start a multiple of {needs} ranks, or make the degrees smaller: their product must divide {world}.",
            severity=None if is_whole(launch) else "warning",
        )


@rule(
    "W02",
    title="The global batch is a multiple of the micro batch times the copies of the model",
    source="Megatron-LM, core/num_microbatches_calculator.py: global batch size is not divisible by micro batch size"
    " times data parallel size",
    bad=(_GPT.format(2, 2, 32, 32, 4, 100), _GPT.format(1, 1, 32, 32, 8, 32)),
    good=(_GPT.format(2, 2, 32, 32, 4, 96), _GPT.format(2, 2, 32, 32, 4, "$BATCH")),
)
def global_batch_not_divisible(job: LintJob) -> Iterator[LintFinding]:
    """Each copy of the model works through its share of the global batch in micro batches of one size."""
    for launch, options in with_options(job):
        micro, whole = (_of(options, name, "model", "train") for name in ("micro_batch_size", "global_batch_size"))
        if micro is None or whole is None or not micro.number or not whole.number or "rampup_batch_size" in options:
            continue
        needs, told_options = _model(options)
        world = _world(job, launch, options)
        if told_options and not needs:
            continue
        copies = 1 if world is None else world // (needs or 1) if world % (needs or 1) == 0 else 0
        if not copies or whole.number % (micro.number * copies) == 0:
            continue
        ranks = f" x {copies} copies of the model" if copies > 1 else ""
        yield LintFinding(
            span=whole.word.span,
            summary=f"{whole.written} {whole.number} is no multiple of {micro.written} {micro.number}{ranks}"
            f" ({micro.number * copies})",
            happens="It ends before the first step: the global batch size is not divisible by micro batch size times"
            " data parallel size.",
            fix=f"Take a global batch that is a multiple of {micro.number * copies}.",
            severity=None if is_whole(launch) else "warning",
        )


_PARTS = (
    ("num_attention_heads", "tensor_model_parallel_size", "attention heads", "tensor parallel parts"),
    ("num_query_groups", "tensor_model_parallel_size", "query groups", "tensor parallel parts"),
    ("num_layers", "pipeline_model_parallel_size", "layers", "pipeline stages"),
    ("hidden_size", "num_attention_heads", "hidden units", "attention heads"),
)
_UNEVEN = lazy_re(
    r"pipeline_model_parallel_layout|pipeline_num_transformer_layers|(?:first|last)_(?:pipeline|stage)|account_for|"
    r"kv_channels|encoder_num_layers|hybrid|standalone_embedding|use_hetero|heterogeneous|multi_latent_attention"
)


@rule(
    "W03",
    title="Layers and heads can be cut in as many parts as are asked for",
    source="Megatron-LM, megatron/training/arguments.py, core/transformer/transformer_config.py: must be divisible by",
    bad=(_GPT.format(8, 1, 12, 12, 1, 64), _GPT.format(2, 4, 46, 32, 1, 64)),
    good=(_GPT.format(4, 2, 12, 16, 1, 64), _GPT.format(2, 4, 48, 32, 1, 64)),
)
def parts_of_the_model(job: LintJob) -> Iterator[LintFinding]:
    """Tensor parallel ranks share the attention heads, pipeline stages the layers, each in equal parts."""
    for launch, options in with_options(job):
        if any(_UNEVEN.search(name) for name in options):
            continue
        for of, by, things, parts in _PARTS:
            cut, into = _of(options, of, "model"), _of(options, by, "model")
            if cut is None or into is None or not cut.number or not into.number or cut.number % into.number == 0:
                continue
            if of == "num_layers" and "deepspeed" in options:
                continue  # DeepSpeed's PipelineModule gives stages what it counts itself
            if of == "num_query_groups" and cut.number < into.number:
                continue  # newer ones copy them
            yield LintFinding(
                span=cut.word.span,
                summary=f"{cut.number} {things} ({cut.written}) are no multiple of"
                f" {into.number} {parts} ({into.written})",
                happens=f"It ends when the model is set up: {cut.number} is not divisible by {into.number}.",
                fix=f"Take a {into.written} that divides {cut.number}, or a {cut.written} that is a multiple of"
                f" {into.number}.",
                severity=None if is_whole(launch) else "warning",
            )
