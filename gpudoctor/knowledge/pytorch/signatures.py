"""The arguments of what programs call of torch to train on several GPUs, as data: nothing of a user's is imported.

From the sources of torch 2.13 (nn/parallel/data_parallel.py and distributed.py, distributed/distributed_c10d.py,
multiprocessing/spawn.py, utils/data/distributed.py); where an argument came later than the releases that
people still run, from their notes. A test holds this against the installed torch.
"""

import difflib

Version = tuple[int, ...]
ALWAYS: Version = ()

SIGNATURES: dict[str, dict[str, Version]] = {
    "DataParallel": dict.fromkeys(("module", "device_ids", "output_device", "dim"), ALWAYS),
    "DistributedDataParallel": {
        **dict.fromkeys(
            (
                "module", "device_ids", "output_device", "dim", "broadcast_buffers", "init_sync", "process_group",
                "bucket_cap_mb", "find_unused_parameters", "check_reduction", "delay_all_reduce_named_params",
                "param_to_hook_all_reduce", "mixed_precision", "device_mesh", "skip_all_reduce_unused_params",
                "bucket_cap_mb_list", "batched_grad_copy", "forward_sync_buffers",
            ),
            ALWAYS,
        ),
        "gradient_as_bucket_view": (1, 7),
        "static_graph": (1, 11),
    },
    "init_process_group": {
        **dict.fromkeys(
            ("backend", "init_method", "timeout", "world_size", "rank", "store", "group_name", "pg_options", "_ranks"),
            ALWAYS,
        ),
        "device_id": (2, 3),
    },
    "spawn": dict.fromkeys(("fn", "args", "nprocs", "join", "daemon", "start_method"), ALWAYS),
    "start_processes": dict.fromkeys(("fn", "args", "nprocs", "join", "daemon", "start_method"), ALWAYS),
    "DistributedSampler": {
        **dict.fromkeys(("dataset", "num_replicas", "rank", "shuffle"), ALWAYS),
        "seed": (1, 6),
        "drop_last": (1, 7),
    },
}  # fmt: skip
MEANT = {
    ("DataParallel", "devices"): "device_ids",
    ("DataParallel", "gpus"): "device_ids",
    ("DataParallel", "gpu_ids"): "device_ids",
    ("DistributedDataParallel", "devices"): "device_ids",
    ("DistributedDataParallel", "gpus"): "device_ids",
    ("DistributedDataParallel", "gpu_ids"): "device_ids",
    ("DistributedSampler", "world_size"): "num_replicas",
    ("init_process_group", "num_replicas"): "world_size",
    ("init_process_group", "nprocs"): "world_size",
    ("spawn", "num_processes"): "nprocs",
    ("spawn", "nproc_per_node"): "nprocs",
    ("spawn", "world_size"): "nprocs",
}
"""The same by another name, which no likeness of letters finds."""
LIKENESS = 0.6
"""difflib's own default: below it two words have little in common."""


def nearest(name: str, wrong: str) -> str:
    """The argument that was meant; empty where none is like it."""
    meant = MEANT.get((name, wrong), "")
    return meant or next(iter(difflib.get_close_matches(wrong, SIGNATURES[name], 1, LIKENESS)), "")
