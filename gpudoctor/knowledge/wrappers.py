"""The prefixes that wrappers of a model put before the names of its parameters."""

ANYWHERE = {
    "_orig_mod.": "torch.compile",
    "_fsdp_wrapped_module.": "FullyShardedDataParallel",
    "_fpw_module.": "FullyShardedDataParallel of torch before 1.13 or of fairscale",
    "_checkpoint_wrapped_module.": "activation checkpointing",
    "_forward_module.": "Lightning Fabric or its DeepSpeed strategy",
}
"""Nobody calls a layer so: these go wherever they stand. torch/_dynamo/eval_frame.py (OptimizedModule),
torch/distributed/fsdp/_common_utils.py, torch/distributed/algorithms/_checkpoint/checkpoint_wrapper.py,
lightning/fabric/wrappers.py."""
IN_FRONT = {
    "module.": "DistributedDataParallel or DataParallel",
    "_module.": "Opacus (GradSampleModule)",
}
"""Names that a model may have itself: these go only in front of every name."""
