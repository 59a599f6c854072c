"""Contracts of training libraries' calls that ranks can break while each call by itself is right: a row each.

A call's name is the whole name of a function ("torch.distributed.init_process_group"), or what its object is and the
method ("scaler.step"); `MAKES` says what an object is, `name()` is the object called itself. All patterns are regular
expressions of whole names. Each row was read from the library's source or documentation, in the release that it names.
"""

from typing import Literal

from msgspec import Struct

Clause = Literal[
    "once", "after", "beside", "not after", "with", "argument", "own", "never", "not", "kept", "everywhere"
]
"""once: not a second time, before `other` has come. after: not before `other` has come. beside: not in a rank that
calls `other` too. not after: not behind `other`. with: below the same conditions as `other`. argument: not given an
object that is `other`. own: not given what this rank alone has computed. never: not in a rank's own course. not: not
at all, as `given`. kept: its result is used, where `other` comes. everywhere: by every rank, where `other` comes
too."""


class ApiContract(Struct, frozen=True, kw_only=True):
    id: str
    call: str
    clause: Clause
    other: str = ""
    same_object: bool = False
    """`other` counts for the object alone that it was called on."""
    somewhere: bool = False
    """Only where some rank does call `other`."""
    of_any_rank: bool = False
    """`other` counts from whatever rank it comes."""
    given: str = ""
    """Only where an argument, or the object, is one of these."""
    unless: str = ""
    """Not where this stands in the program."""
    until: str = ""
    """`other` counts no longer when one of these has come behind it."""
    is_sure: bool = False
    """Only below no condition that nobody knows."""
    in_a_loop: bool = False
    """Only where it comes again and again."""
    later: bool = False
    """Only where `other` comes behind it in the same loop."""
    at_object: bool = False
    """Told where the object is made."""
    told: str = ""
    """Only where this stands in the text or beside it."""
    severity: Literal["error", "warning"] = "error"
    summary: str
    happens: str
    fix: str
    source: str


MAKES: dict[str, str] = {
    r"torch\.(?:cuda\.)?amp\.(?:grad_scaler\.)?GradScaler": "scaler",
    r"torch\.optim\.lr_scheduler\.ReduceLROnPlateau": "plateau",
    r"torch\.optim\.lr_scheduler\.\w+|transformers\.(?:\w+\.)*get_\w*schedule\w*": "schedule of rates",
    r"torch\.distributed\.optim\.(?:\w+\.)*ZeroRedundancyOptimizer": "zero optimizer",
    r"torchmetrics\.(?:\w+\.)*[A-Z]\w*": "metric",
    r"ray\.data\.(?:read_\w+|from_\w+|range)": "ray dataset",
    r"(?:torch\.utils\.tensorboard|tensorboardX)\.(?:\w+\.)*SummaryWriter": "writer",
}
"""What an object is, by the function or class that makes it."""

COLLECTIVE: dict[str, str] = {
    r"metric\.(?:compute|forward)": "the metric's {method}",
    r"fsdp\.(?:state_dict|full_optim_state_dict)": "{method}",
    r"engine\.(?:save_checkpoint|load_checkpoint|save_16bit_model)": "{method}",
    r"zero optimizer\.consolidate_state_dict": "{method}",
}
"""Calls that wait for all ranks though their names do not say so, and what they are called: torchmetrics/metric.py
(dist_sync_on_step and compute gather), torch/distributed/fsdp, deepspeed/runtime/engine.py,
zero_redundancy_optimizer.py (consolidate_state_dict broadcasts)."""

CONTRACTS: tuple[ApiContract, ...] = (
    ApiContract(
        id="group-once",
        call=r"torch\.distributed\.init_process_group",
        clause="once",
        other=r"torch\.distributed\.destroy_process_group",
        summary="a rank comes to init_process_group a second time, and nothing has destroyed the first group",
        happens="ValueError: trying to initialize the default process group twice.",
        fix="Join once, before the loop; or call dist.destroy_process_group() at the end of each turn.",
        source="torch 1.0 to 2.13, distributed_c10d.py: init_process_group",
    ),
    ApiContract(
        id="group-is-gone",
        call=r"torch\.distributed\.(?:barrier|all_\w+|broadcast\w*|reduce\w*|gather\w*|scatter\w*|get_rank|get_world_size)",
        clause="not after",
        other=r"torch\.distributed\.destroy_process_group",
        until=r"torch\.distributed\.init_process_group",
        is_sure=True,
        summary="{call} comes behind destroy_process_group(), which has taken the group away",
        happens="ValueError: Default process group has not been initialized.",
        fix="Destroy the group last of all.",
        source="torch 1.0 to 2.13, distributed_c10d.py: destroy_process_group, _get_default_group",
    ),
    ApiContract(
        id="gradients-cleared",
        call=r"optimizer\.step",
        clause="not",
        other=r"\w+\.backward",
        somewhere=True,
        in_a_loop=True,
        unless=r"zero_grad|\.grad\b|set_to_none|deepspeed",
        severity="warning",
        summary="the optimizer steps in a loop, and nothing sets the gradients to zero (zero_grad)",
        happens="backward() adds to the gradients: each step takes the sum of all turns before it.",
        fix="Call optimizer.zero_grad() in each turn, before backward() or behind step().",
        source="torch 1.0 to 2.13, autograd: gradients are accumulated into .grad; optim/optimizer.py, zero_grad",
    ),
    ApiContract(
        id="unscaled-before-the-limit",
        call=r"torch\.nn\.utils\.clip_grad_(?:norm|value)_",
        clause="after",
        other=r"scaler\.unscale_",
        is_sure=True,
        in_a_loop=True,
        later=True,
        severity="warning",
        summary="{call} clips before scaler.unscale_ has taken the loss scale out of the gradients",
        happens="The limit meets gradients that are many times too large: nearly all of a step is cut away.",
        fix="Call scaler.unscale_(optimizer) first, then clip, then scaler.step(optimizer).",
        source="torch 1.6 to 2.13, amp's examples of gradient clipping; amp/grad_scaler.py, unscale_",
    ),
    ApiContract(
        id="rates-behind-the-step",
        call=r"schedule of rates\.step",
        clause="after",
        other=r"(?:zero )?optimizer\.step|scaler\.step",
        given=r"nothing",
        is_sure=True,
        in_a_loop=True,
        later=True,
        severity="warning",
        summary="the scheduler steps before the optimizer (opt) in each turn of the loop",
        happens="The first learning rate is never used, and every one comes a turn too early; torch only warns.",
        fix="Call scheduler.step() behind optimizer.step(), at the end of the turn or of the epoch.",
        source="torch 1.1 to 2.13, optim/lr_scheduler.py: Detected call of lr_scheduler.step() before optimizer.step()",
    ),
    ApiContract(
        id="run-before-log",
        call=r"wandb\.(?:log|save|watch)",
        clause="after",
        other=r"wandb\.init",
        somewhere=True,
        summary="{call} is called on every rank, and wandb.init on one alone",
        happens="The other ranks end: You must call wandb.init() before {call}().",
        fix="Log on the rank that has begun the run.",
        source="wandb, sdk/lib/preinit.py: PreInitCallable",
    ),
    ApiContract(
        id="consolidated-before-state",
        call=r"zero optimizer\.state_dict",
        clause="after",
        other=r"zero optimizer\.consolidate_state_dict",
        same_object=True,
        summary="ZeroRedundancyOptimizer's state is asked for, and consolidate_state_dict has not brought it together",
        happens="RuntimeError: Optimizer state has not been consolidated on this rank.",
        fix="Call optimizer.consolidate_state_dict(to=0) on all ranks before, outside of the condition.",
        source="torch 1.8 to 2.13, zero_redundancy_optimizer.py: state_dict",
    ),
    ApiContract(
        id="metric-on-the-gpu",
        call=r"metric(?:\.update|\.forward|\(\))",
        clause="after",
        other=r"metric\.(?:to|cuda)",
        same_object=True,
        given=r"from wrapped",
        summary="the metric was never moved to the GPU, and gets what the wrapped model has computed there",
        happens="RuntimeError: Expected all tensors to be on the same device.",
        fix="Make it with .to(device).",
        source="torchmetrics, Overview, Metrics and devices: the metric's states are to be on the inputs' device",
    ),
    ApiContract(
        id="trainer-wraps-itself",
        call=r"(?:transformers|trl)\.(?:\w+\.)*\w*Trainer",
        clause="argument",
        other=r"(?:ddp|fsdp) by hand",
        severity="warning",
        summary="the Trainer is given a model that is wrapped by hand, and would wrap it itself",
        happens="It reads the wrapper's forward(*inputs) for the columns to keep, and drops all; config is missing.",
        fix="Give the Trainer the bare model, and leave init_process_group to it too.",
        source="transformers 4.30 to 5.24, trainer.py: _set_signature_columns_if_needed, _wrap_model",
    ),
    ApiContract(
        id="prepare-wraps-itself",
        call=r"accelerator\.prepare(?:_model)?|deepspeed\.initialize"
        r"|torch\.distributed\.fsdp\.(?:\w+\.)*FullyShardedDataParallel",
        clause="argument",
        other=r"(?:ddp|fsdp) by hand",
        unless=r"fully_shard\(",
        summary="{call} is given a model that is wrapped by hand, and wraps it itself",
        happens="Its gradients are averaged twice, and what unwraps it gives the inner wrapper.",
        fix="Give it the bare model.",
        source="accelerate 0.20 to 1.15, accelerator.py: prepare_model; deepspeed/runtime/engine.py; torch's FSDP",
    ),
    ApiContract(
        id="scaler-of-shards",
        call=r"scaler\.step",
        clause="beside",
        other=r"torch\.distributed\.fsdp\.(?:\w+\.)*FullyShardedDataParallel",
        severity="warning",
        at_object=True,
        summary="a plain GradScaler steps gradients that FSDP has sharded",
        happens="Each rank looks for infinities in its own shards: one leaves a step out that the others take.",
        fix="Take torch.distributed.fsdp.sharded_grad_scaler.ShardedGradScaler.",
        source="torch 1.12 to 2.13, fsdp/sharded_grad_scaler.py: found_inf is reduced over the ranks",
    ),
    ApiContract(
        id="accumulated-within",
        call=r"accelerator\.backward",
        clause="after",
        other=r"accelerator\.(?:accumulate|no_sync)",
        given=r"accumulates",
        severity="warning",
        unless=r"sync_gradients|GradientAccumulationPlugin",
        summary="Accelerator is told to accumulate gradients, and the loop stands in no accelerator.accumulate(model)",
        happens="Every batch is a step, with a gradient that backward has divided by the accumulation steps.",
        fix="Put the body of the loop into `with accelerator.accumulate(model):`.",
        source="accelerate 0.12 to 1.15, accelerator.py: backward divides, accumulate alone counts",
    ),
    ApiContract(
        id="engine-counts-itself",
        call=r"engine\.step",
        clause="with",
        other=r"engine\.backward",
        told=r"[\"']?gradient_accumulation_steps[\"']?\s*[:=]\s*[\"']?(?:[2-9]|[1-9]\d)",
        severity="warning",
        summary="engine.step() comes in some turns alone, and DeepSpeed counts the accumulation's turns in it",
        happens="It steps once in accumulation steps times as many batches: far fewer steps than were meant.",
        fix="Call engine.step() behind every engine.backward(loss).",
        source="DeepSpeed 0.3 to 0.19, runtime/engine.py: step() counts micro_steps; its documentation of training",
    ),
    ApiContract(
        id="plateau-of-all",
        call=r"plateau\.step",
        clause="own",
        severity="warning",
        summary="ReduceLROnPlateau is stepped with what this rank alone has computed",
        happens="The ranks lower their learning rates in different epochs: their weights drift apart.",
        fix="dist.all_reduce the value, divided by the world size, before step() is given it.",
        source="torch 1.0 to 2.13, lr_scheduler.py: ReduceLROnPlateau.step compares the value that it is given",
    ),
    ApiContract(
        id="forked-with-cuda",
        call=r"(?:torch\.)?multiprocessing\.Process",
        clause="not after",
        other=r"torch\.cuda\.(?:get_device_name|get_device_properties|get_device_capability|init|set_device|synchronize"
        r"|mem_get_info|current_device)|(?:model|moved|tensor)\.cuda",
        unless=r"set_start_method|get_context|forkserver",
        given=r"function of the text",
        summary="processes are forked that use CUDA, and this one has used it before",
        happens="RuntimeError: Cannot re-initialize CUDA in forked subprocess (until Python 3.14, Process forks).",
        fix="Call torch.multiprocessing.set_start_method('spawn') first, or leave the GPU alone before they start.",
        source="torch 1.0 to 2.13, cuda/__init__.py: _lazy_init; Python 3.10 to 3.13: fork is the default of Linux",
    ),
    ApiContract(
        id="shard-of-the-worker",
        call=r"ray dataset\.(?:iter_torch_batches|iter_batches|iter_rows|to_torch)",
        clause="never",
        severity="warning",
        summary="a worker of Ray goes through the whole dataset, and not through its shard",
        happens="All workers train on the same rows.",
        fix="Hand it to TorchTrainer(datasets={'train': ...}), and go through ray.train.get_dataset_shard('train').",
        source="ray 2.7 to 2.53, Train's guide of data: get_dataset_shard splits, the closure's dataset is whole",
    ),
    ApiContract(
        id="steps-everywhere",
        call=r"(?:zero )?optimizer\.step|schedule of rates\.step|sampler\.set_epoch"
        r"|torch\.nn\.utils\.clip_grad_(?:norm|value)_",
        clause="everywhere",
        other=r"\w+\.backward|\w+\(\)|accelerator\.backward",
        unless=r"broadcast",
        severity="warning",
        summary="{call} comes on rank {rank}, and not on other ranks",
        happens="What it changes (weights, rates, gradients, the order of the data) is then another on each rank: the"
        " averaged gradients are of different models.",
        fix="Take it out of the condition, so that every rank calls it.",
        source="torch 1.0 to 2.13, nn/parallel/distributed.py: gradients are averaged, weights are sent once, when"
        " it is made; utils/data/distributed.py: set_epoch decides the order on each rank",
    ),
    ApiContract(
        id="loaded-everywhere",
        call=r"ddp\.load_state_dict|wrapped\.load_state_dict",
        clause="everywhere",
        other=r"\w+\.backward|\w+\(\)|accelerator\.backward",
        unless=r"broadcast",
        severity="warning",
        summary="weights are loaded into the wrapped model on rank {rank}, and not on other ranks",
        happens="DistributedDataParallel sends weights once, when it is made: the ranks go on from different ones.",
        fix="Load them on every rank (map_location), or before the model is wrapped.",
        source="torch 1.0 to 2.13, nn/parallel/distributed.py: _sync_module_states in __init__ alone",
    ),
    ApiContract(
        id="wrapped-once",
        call=r"torch\.nn\.parallel\.(?:\w+\.)*DistributedDataParallel",
        clause="argument",
        other=r"(?:ddp|fsdp) by hand",
        severity="warning",
        summary="a model is wrapped in DistributedDataParallel that is wrapped already",
        happens="Gradients are reduced twice, and its keys begin with module.module.",
        fix="Wrap the bare model once, before the loop.",
        source="torch 1.0 to 2.13, nn/parallel/distributed.py: each wrapper puts hooks of its own on the parameters",
    ),
    ApiContract(
        id="trackers-before-log",
        call=r"accelerator\.log",
        clause="after",
        other=r"accelerator\.init_trackers",
        of_any_rank=True,
        unless=r"\.trackers",
        severity="warning",
        summary="accelerator.log is called, and accelerator.init_trackers never",
        happens="Accelerator has no trackers then: nothing is logged, and nothing is said.",
        fix="Call accelerator.init_trackers(name, config) before the loop, and tell Accelerator log_with=.",
        source="accelerate 0.10 to 1.15, accelerator.py: log goes through self.trackers, which init_trackers fills",
    ),
    ApiContract(
        id="clipped-by-accelerate",
        call=r"torch\.nn\.utils\.clip_grad_(?:norm|value)_",
        clause="beside",
        other=r"accelerator\.backward",
        told=r"mixed_precision[\"']?\s*[:= ]\s*[\"']?fp16",
        unless=r"unscale_gradients",
        severity="warning",
        summary="torch's own {call} clips gradients that accelerate's fp16 has scaled",
        happens="The limit meets gradients many times too large: nearly all of a step is cut away.",
        fix="Call accelerator.clip_grad_norm_(model.parameters(), limit), which unscales them first.",
        source="accelerate 0.5 to 1.15, accelerator.py: backward scales, clip_grad_norm_ unscales",
    ),
    ApiContract(
        id="engine-steps-the-rates",
        call=r"engine's schedule\.step",
        clause="beside",
        other=r"engine\.step",
        severity="warning",
        summary="the schedule that DeepSpeed gave back is stepped by hand, and engine.step() steps it too",
        happens="The learning rate moves twice as fast as was meant.",
        fix="Leave the call out: engine.step() steps the schedule at each boundary of accumulation.",
        source="DeepSpeed 0.3 to 0.19, runtime/engine.py: _take_model_step calls lr_scheduler.step()",
    ),
    ApiContract(
        id="results-kept",
        call=r"accelerator\.prepare|fabric\.setup(?:_\w+)?|ray\.train\.torch\.prepare_(?:model|data_loader)|torch\.compile"
        r"|torch\.nn\.parallel\.(?:\w+\.)*DistributedDataParallel|datasets\.distributed\.split_dataset_by_node"
        r"|torch\.distributed\.fsdp\.(?:\w+\.)*FullyShardedDataParallel|stream\.(?:map|filter|shuffle|shard|take|skip)",
        clause="kept",
        other=r"\w+\.backward|(?:transformers|trl)\.(?:\w+\.)*\w*Trainer",
        severity="warning",
        summary="what {call} gives back is thrown away, and what it was given stays as it was",
        happens="The ranks go on with what is not wrapped, or not split: each trains for itself, or on the same data.",
        fix="Take what comes back: model = {call}(model), and so on.",
        source="accelerate 0.5 to 1.15, lightning 2.6, ray 2.7 to 2.53, datasets 2.8 to 4.4, torch 1.0 to 2.13: they"
        " return new objects",
    ),
    ApiContract(
        id="norms-before-the-wrapper",
        call=r"torch\.nn\.SyncBatchNorm\.convert_sync_batchnorm",
        clause="argument",
        other=r"(?:ddp|fsdp)(?: by hand)?",
        severity="warning",
        summary="convert_sync_batchnorm (SyncBatchNorm) comes behind the wrapper, which has the old layers by then",
        happens="The wrapper was made for the plain layers: what it broadcasts and waits for are theirs.",
        fix="Convert the bare model first, take what comes back, and wrap that.",
        source="torch 1.1 to 2.13, nn/modules/batchnorm.py, convert_sync_batchnorm: its example converts, then wraps",
    ),
    ApiContract(
        id="steps-of-a-stream",
        call=r"(?:transformers|trl)\.(?:\w+\.)*\w*Trainer",
        clause="argument",
        other=r"stream",
        unless=r"max_steps",
        summary="the Trainer is given a streamed data set, which has no length, and no max_steps",
        happens="ValueError: The train_dataset does not implement __len__, max_steps has to be specified.",
        fix="Give TrainingArguments max_steps=N in the place of num_train_epochs.",
        source="transformers 4.0 to 5.24, trainer.py: args.max_steps > 0 is required without has_length(dataloader)",
    ),
    ApiContract(
        id="split-once",
        call=r"accelerator\.prepare(?:_data_loader)?",
        clause="argument",
        other=r"loader of a sampler",
        severity="warning",
        summary="a loader with a DistributedSampler is given to accelerator.prepare, which splits it once more",
        happens="Each process goes through its part of a part: most of the data are never seen.",
        fix="Make the loader with shuffle=True and without a sampler, and let prepare split it.",
        source="accelerate 0.5 to 1.15, data_loader.py: prepare_data_loader puts BatchSamplerShard over what there is",
    ),
    ApiContract(
        id="gathered-without-repeats",
        call=r"accelerator\.gather",
        clause="not",
        given=r"predictions without gradient",
        unless=r"samples_seen|gather_for_metrics|\[\s*:\s*len|even_batches\s*=\s*False|drop_last\s*=\s*True|\.truncate",
        severity="warning",
        summary="predictions are gathered by accelerator.gather, which keeps the samples that fill the last batch up",
        happens="Some samples count twice in the metric: it is a little off, and another for each number of processes.",
        fix="Call accelerator.gather_for_metrics(...), which drops them.",
        source="accelerate 0.12 to 1.15, accelerator.py: gather_for_metrics drops the duplicates of the last batch",
    ),
    ApiContract(
        id="clipped-by-the-model",
        call=r"torch\.nn\.utils\.clip_grad_norm_",
        clause="argument",
        other=r"parameters of fsdp",
        unless=r"NO_SHARD",
        severity="warning",
        summary="clip_grad_norm_ of torch.nn.utils sees this rank's shards of the FSDP model alone",
        happens="Each rank computes another norm and clips by it: it trains otherwise than was meant.",
        fix="Write model.clip_grad_norm_(limit), which all ranks call.",
        source="torch 1.11 to 2.13, fsdp/fully_sharded_data_parallel.py, clip_grad_norm_; pytorch#88621",
    ),
)
