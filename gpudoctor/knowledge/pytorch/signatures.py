"""The arguments of what programs call of torch to train on several GPUs, as data: nothing of a user's is imported.

`READ` is read from the wheels of torch 1.0 to 2.14, the first release of each minor version, by their syntax trees and
without importing any: tests/lab/torch_signatures.py, which tests hold this table against.
"""

import difflib

from msgspec import Struct

from gpudoctor.knowledge.superseded import dotted

Version = tuple[int, ...]
NEVER: Version = ()

READ: tuple[tuple[str, Version, Version, str], ...] = (
    ("DataParallel", (1, 0), (), "module device_ids output_device dim"),
    (
        "DistributedDataParallel",
        (1, 0),
        (),
        "module device_ids output_device dim broadcast_buffers process_group bucket_cap_mb check_reduction",
    ),
    ("DistributedDataParallel", (1, 1), (), "find_unused_parameters"),
    ("DistributedDataParallel", (1, 7), (), "gradient_as_bucket_view"),
    ("DistributedDataParallel", (1, 11), (), "static_graph"),
    ("DistributedDataParallel", (2, 1), (), "delay_all_reduce_named_params param_to_hook_all_reduce mixed_precision"),
    ("DistributedDataParallel", (2, 2), (), "device_mesh"),
    ("DistributedDataParallel", (2, 7), (), "init_sync"),
    ("DistributedDataParallel", (2, 8), (), "skip_all_reduce_unused_params"),
    ("DistributedDataParallel", (2, 11), (), "bucket_cap_mb_list"),
    ("DistributedDataParallel", (2, 12), (), "batched_grad_copy"),
    ("DistributedDataParallel", (2, 13), (), "forward_sync_buffers"),
    ("FullyShardedDataParallel", (1, 11), (), "module process_group cpu_offload backward_prefetch"),
    ("FullyShardedDataParallel", (1, 11), (1, 12), "fsdp_auto_wrap_policy"),
    (
        "FullyShardedDataParallel",
        (1, 12),
        (),
        "sharding_strategy auto_wrap_policy mixed_precision ignored_modules param_init_fn device_id sync_module_states",
    ),
    ("FullyShardedDataParallel", (1, 13), (), "forward_prefetch limit_all_gathers"),
    ("FullyShardedDataParallel", (2, 0), (), "use_orig_params"),
    ("FullyShardedDataParallel", (2, 0), (2, 1), "ignored_parameters"),
    ("FullyShardedDataParallel", (2, 1), (), "ignored_states"),
    ("FullyShardedDataParallel", (2, 2), (), "device_mesh"),
    ("init_process_group", (1, 1), (), "backend init_method timeout world_size rank store group_name"),
    ("init_process_group", (1, 9), (), "pg_options"),
    ("init_process_group", (2, 3), (), "device_id"),
    ("init_process_group", (2, 10), (), "_ranks"),
    ("init_process_group", (2, 14), (), "enable_reconfigure"),
    ("new_group", (1, 0), (), "ranks timeout"),
    ("new_group", (1, 1), (), "backend"),
    ("new_group", (1, 9), (), "pg_options"),
    ("new_group", (2, 1), (), "use_local_synchronization"),
    ("new_group", (2, 4), (), "group_desc"),
    ("new_group", (2, 6), (), "device_id"),
    ("new_group", (2, 12), (), "sort_ranks"),
    ("spawn", (1, 0), (), "fn args nprocs join daemon"),
    ("spawn", (1, 5), (), "start_method"),
    ("start_processes", (1, 5), (), "fn args nprocs join daemon start_method"),
    ("start_processes", (2, 9), (2, 10), "numa_options"),
    ("DistributedSampler", (1, 0), (), "dataset num_replicas rank"),
    ("DistributedSampler", (1, 2), (), "shuffle"),
    ("DistributedSampler", (1, 6), (), "seed"),
    ("DistributedSampler", (1, 7), (), "drop_last"),
    (
        "DataLoader",
        (1, 0),
        (),
        "dataset batch_size shuffle sampler batch_sampler num_workers collate_fn pin_memory drop_last timeout"
        " worker_init_fn",
    ),
    ("DataLoader", (1, 2), (), "multiprocessing_context"),
    ("DataLoader", (1, 6), (), "generator"),
    ("DataLoader", (1, 7), (), "prefetch_factor persistent_workers"),
    ("DataLoader", (1, 12), (), "pin_memory_device"),
    ("DataLoader", (2, 6), (), "in_order"),
    ("convert_sync_batchnorm", (1, 1), (), "module process_group"),
    ("autocast", (1, 11), (), "device_type dtype enabled cache_enabled"),
    ("GradScaler", (2, 3), (), "device init_scale growth_factor backoff_factor growth_interval enabled"),
    ("cuda.amp.autocast", (1, 6), (), "enabled"),
    ("cuda.amp.autocast", (1, 10), (), "dtype cache_enabled"),
    ("cuda.amp.GradScaler", (1, 5), (), "init_scale growth_factor backoff_factor growth_interval enabled"),
)
"""Function, the first release that has these arguments, the first without them (() where today's has them), and they.
A release that took any name by ** says nothing (init_process_group of 1.0, autocast of 1.10)."""
PLACES: dict[str, tuple[str, ...]] = {
    "DataParallel": ("torch.nn.",),
    "DistributedDataParallel": ("torch.nn.",),
    "FullyShardedDataParallel": ("torch.distributed.fsdp.",),
    "init_process_group": ("torch.distributed.init", "torch.distributed.distributed_c10d."),
    "new_group": ("torch.distributed.new", "torch.distributed.distributed_c10d."),
    "spawn": ("torch.multiprocessing.",),
    "start_processes": ("torch.multiprocessing.",),
    "DistributedSampler": ("torch.utils.data.",),
    "DataLoader": ("torch.utils.data.",),
    "convert_sync_batchnorm": ("torch.nn.SyncBatchNorm.", "torch.nn.modules.batchnorm."),
    "autocast": ("torch.autocast", "torch.amp."),
    "GradScaler": ("torch.amp.",),
    "cuda.amp.autocast": ("torch.cuda.amp.",),
    "cuda.amp.GradScaler": ("torch.cuda.amp.",),
}
"""How the whole names of each begin; other packages have functions of the same last name."""
SHORT = {"DDP": "DistributedDataParallel", "FSDP": "FullyShardedDataParallel", "DP": "DataParallel"}
"""As torch's own documentation imports them."""
MEANT = {
    **{
        (wrapper, wrong): "device_ids"
        for wrapper in ("DataParallel", "DistributedDataParallel")
        for wrong in ("devices", "gpus", "gpu_ids", "gpu")
    },
    ("DistributedSampler", "world_size"): "num_replicas",
    ("init_process_group", "num_replicas"): "world_size",
    ("init_process_group", "nprocs"): "world_size",
    ("spawn", "num_processes"): "nprocs",
    ("spawn", "nproc_per_node"): "nprocs",
    ("spawn", "world_size"): "nprocs",
    ("FullyShardedDataParallel", "fsdp_auto_wrap_policy"): "auto_wrap_policy",
    ("FullyShardedDataParallel", "ignored_parameters"): "ignored_states",
}
"""The same by another name, which no likeness of letters finds. torch 1.12 and 2.1 renamed the last two."""
OF_APEX = frozenset(
    {
        *("message_size", "delay_allreduce", "shared_param", "allreduce_trigger_params", "retain_allreduce_buffers"),
        *("allreduce_always_fp32", "num_allreduce_streams", "allreduce_communicators", "gradient_average"),
        *("gradient_predivide_factor", "gradient_average_split_factor"),
    }
)
"""Arguments of apex.parallel.DistributedDataParallel (NVIDIA/apex, apex/parallel/distributed.py), which torch's of the
same name never had."""
LIKENESS = 0.75
"""Of difflib: below it an argument is another one, not a misspelt one (delay_allreduce is Apex's own)."""
SHORTEST = 5
"""Letters with which an argument may be cut short."""


class KnownArgument(Struct, frozen=True):
    """When an argument is there."""

    first: Version
    gone: Version


class RefusedArgument(Struct, frozen=True):
    """An argument that a function does not have, or not in that release."""

    since: Version
    """The release that brought it; () for none."""
    gone: Version
    """The first release without it; () for what is there today, and for what never was."""
    near: str
    """The one that was meant; empty where none is like it."""

    @property
    def when(self) -> str:
        """The rest of a sentence: "; it came with torch 2.3"."""
        if self.gone:
            return f"; it was there up to torch {dotted(self.gone)}, which has it no more"
        return f"; it came with torch {dotted(self.since)}" if self.since else ""


def _table() -> dict[str, dict[str, KnownArgument]]:
    table: dict[str, dict[str, KnownArgument]] = {}
    for function, first, gone, names in READ:
        table.setdefault(function, {}).update((name, KnownArgument(first, gone)) for name in names.split())
    return table


SIGNATURES = _table()
OLDEST = {function: min(argument.first for argument in known.values()) for function, known in SIGNATURES.items()}
"""The first release that says anything of it."""


def function_of(name: str) -> str:
    """Which of them a whole name means: "cuda.amp.autocast" of torch.cuda.amp.autocast_mode.autocast; else empty."""
    last = name.rpartition(".")[2]
    return next(
        (key for key, starts in PLACES.items() if key.rpartition(".")[2] == last and name.startswith(starts)), ""
    )


def refused(function: str, argument: str, version: Version | None) -> RefusedArgument | None:
    """What a release refuses, and what was meant; None where it takes the argument, or says nothing of it. Without a
    version: what today's refuses."""
    known = SIGNATURES[function].get(argument)
    if known is None:
        return RefusedArgument(NEVER, NEVER, nearest(function, argument, version))
    if known.gone and (version is None or version >= known.gone):
        return RefusedArgument(NEVER, known.gone, nearest(function, argument, version))
    if version is not None and OLDEST[function] <= version < known.first:
        return RefusedArgument(known.first, NEVER, "")
    return None


def takes(function: str, version: Version | None) -> list[str]:
    """The arguments for users that a release has, or today's."""
    return [
        name
        for name, argument in SIGNATURES[function].items()
        if not name.startswith("_")
        and (
            not argument.gone
            if version is None
            else argument.first <= version and not (argument.gone and version >= argument.gone)
        )
    ]


def nearest(function: str, wrong: str, version: Version | None = None) -> str:
    """The argument of that release that was meant; empty where none is like it."""
    have = takes(function, version)
    meant = MEANT.get((function, wrong), "")
    if meant in have:
        return meant
    if function == "DistributedDataParallel" and wrong in OF_APEX:
        return ""
    cut = [name for name in have if len(wrong) >= SHORTEST and name.startswith(wrong)]
    like = difflib.get_close_matches(wrong, have, 1, LIKENESS)
    return like[0] if like else cut[0] if len(cut) == 1 else ""
