"""What constructors of training libraries refuse in their arguments, or take and then do something else: a row for each
check of their sources (see refused_options.py for the form).

lightning 2.6: trainer.py, setup.py, fit_loop.py, data_connector.py, configuration_validator.py,
accelerator_connector.py, strategies/deepspeed.py, plugins/precision/fsdp.py, callbacks; fabric/fabric.py; accelerate
1.15, accelerator.py; torch 2.13: __init__.py, utils/data/dataloader.py, utils/data/distributed.py,
distributed/fsdp/_init_utils.py, _flat_param.py, _dynamo/variables/builder.py, nn/parallel/distributed.py;
transformers 5.24, quantization_config.py; vLLM 0.11, torchrun_example; DeepSpeed 0.19 (rows of "deepspeed").

A name is a keyword; `strategy.config.x` what stands in the call or mapping that is given as strategy; a call or name
that is given is its whole name ("torch.float16"), and of a list the tuple of such. `calls.X`: the program calls X;
`mentions.X`: the word stands in it; `module.manual_optimization`, `reentrant` (a checkpoint with use_reentrant=True),
`launcher`, `world`, `several` (more processes than one) and `fsdp` are told by the program and its start.
"""

from gpudoctor.knowledge.refused_options import rows

CALLEES: dict[str, str] = {
    "Trainer": r"(?:lightning|pytorch_lightning)(?:\.\w+)*\.Trainer",
    "Fabric": r"(?:lightning|lightning_fabric)(?:\.\w+)*\.Fabric",
    "Accelerator": r"accelerate(?:\.\w+)*\.Accelerator",
    "DeepSpeedPlugin": r"accelerate(?:\.\w+)*\.DeepSpeedPlugin",
    "DataLoader": r"torch\.utils\.data(?:\.\w+)*\.DataLoader",
    "DistributedSampler": r"torch\.utils\.data(?:\.\w+)*\.DistributedSampler",
    "compile": r"torch\.compile",
    "FullyShardedDataParallel": r"torch\.distributed\.fsdp(?:\.\w+)*\.FullyShardedDataParallel",
    "DistributedDataParallel": r"torch\.nn\.parallel(?:\.\w+)*\.DistributedDataParallel",
    "DistributedDataParallelKwargs": r"accelerate(?:\.\w+)*\.DistributedDataParallelKwargs",
    "BitsAndBytesConfig": r"transformers(?:\.\w+)*\.BitsAndBytesConfig",
    "LLM": r"vllm(?:\.\w+)*\.LLM",
}
"""Whose call it is, by the whole name of what is called."""

DEFAULTS: dict[str, dict[str, object]] = {
    "Trainer": {"accelerator": "auto", "strategy": "auto", "check_val_every_n_epoch": 1, "enable_checkpointing": True},
    "Fabric": {"strategy": "auto", "devices": "auto"},
    "Accelerator": {"gradient_accumulation_steps": 1},
    "DeepSpeedPlugin": {"zero_stage": 2},
    "DataLoader": {"num_workers": 0, "batch_size": 1, "drop_last": False},
    "FullyShardedDataParallel": {"use_orig_params": False},
}

_SHARES = (
    *("limit_train_batches", "limit_val_batches", "limit_test_batches", "limit_predict_batches", "overfit_batches"),
    "val_check_interval",
)
_REENTRANT = (
    "find_unused_parameters and reentrant and not static_graph and not calls._set_static_graph",
    "Expected to mark a variable ready only once: a checkpoint with use_reentrant=True runs its part twice, and"
    " find_unused_parameters has marked its parameters before",
    "Write use_reentrant=False at the checkpoint, or find_unused_parameters=False.",
)

REFUSED = (
    *rows(
        "Trainer",
        ("gradient_clip_val and module.manual_optimization",
         "Automatic gradient clipping is not supported for manual optimization (automatic_optimization = False)",
         "Take gradient_clip_val out, and call self.clip_gradients(optimizer, gradient_clip_val=...) in the step."),
        ("accumulate_grad_batches > 1 and module.manual_optimization",
         "Automatic gradient accumulation is not supported for manual optimization (automatic_optimization = False)",
         "Take accumulate_grad_batches out, and step every so many batches."),
        ("told(strategy.config.gradient_accumulation_steps)",
         "MisconfigurationException: Do not set `gradient_accumulation_steps` in the DeepSpeed config as this will be"
         " set with the `accumulate_grad_batches` argument passed via the Lightning Trainer",
         "Take gradient_accumulation_steps out of the config, and write accumulate_grad_batches."),
        ("'deepspeed' in strategy and gradient_clip_val and gradient_clip_algorithm == 'value'",
         "DeepSpeed does not support clipping gradients by value", "Write gradient_clip_algorithm=\"norm\"."),
        ("strategy in ('fsdp', 'fsdp_cpu_offload') and accelerator == 'cpu'",
         "The strategy `fsdp` requires a GPU accelerator", "Write accelerator=\"gpu\", or strategy=\"ddp\"."),
        ("strategy in ('fsdp', 'fsdp_cpu_offload', 'lightning.pytorch.strategies.FSDPStrategy',"
         " 'pytorch_lightning.strategies.FSDPStrategy') and gradient_clip_val and"
         " (not told(gradient_clip_algorithm) or gradient_clip_algorithm == 'norm')",
         "`gradient_clip_algorithm='norm'` is currently not supported for `FSDPPrecision`",
         "Write gradient_clip_algorithm=\"value\", or clip in configure_gradient_clipping by"
         " self.trainer.model.clip_grad_norm_()."),
        ("strategy in ('ddp', 'ddp_spawn', 'ddp_find_unused_parameters_true') and accelerator == 'mps'",
         "strategies from the DDP family are not supported on the MPS accelerator", "Write accelerator=\"cpu\"."),
        ("enable_checkpointing == False and 'ModelCheckpoint' in callbacks",
         "Trainer was configured with `enable_checkpointing=False` but found `ModelCheckpoint` in callbacks list",
         "Take enable_checkpointing out."),
        ("logger == False and 'LearningRateMonitor' in callbacks",
         "Cannot use `LearningRateMonitor` callback with `Trainer` that has no logger", "Write a logger."),
        ("told(devices) and devices == 0", "`Trainer(devices=0)` value is not a valid input",
         "Write devices=\"auto\"."),
        *((f"{name} > 1 and {name} % 1 != 0",
           f"You have passed invalid value for {name}, it has to be in [0.0, 1.0] or an int", "Write an int.")
          for name in _SHARES),
        ("told(gradient_clip_algorithm) and gradient_clip_algorithm not in ('value', 'norm', None)",
         "`gradient_clip_algorithm` is invalid. Allowed algorithms: ('value', 'norm')", "Write \"norm\" or \"value\"."),
        ("max_epochs < -1", "`max_epochs` must be a non-negative integer or -1", "Write max_epochs=-1 for no end."),
        ("barebones and ((told(enable_checkpointing) and enable_checkpointing) or logger or enable_progress_bar or"
         " enable_model_summary or detect_anomaly or profiler)",
         "Trainer(barebones=True, ...) was passed: it is disabled in barebones mode", "Take one out."),
        ("told(check_val_every_n_epoch) and check_val_every_n_epoch == None and val_check_interval > 0 and"
         " val_check_interval < 1", "`val_check_interval` should be an integer or a time-based duration when"
         " `check_val_every_n_epoch=None`", "Write a number of batches."),
        ("told(num_nodes) and num_nodes < 1", "`num_nodes` must be a positive integer", "Write num_nodes=1 or more."),
        ("accelerator == 'cpu' and precision in ('16-mixed', 16, '16')",
         "AMP with fp16 is not supported on CPU: bf16-mixed is used instead", "Write precision=\"bf16-mixed\".", True),
    ),
    *rows(
        "Fabric",
        ("devices > 1 and launcher == 'python' and strategy not in ('dp', 'ddp_notebook') and not calls.launch",
         "To use Fabric with more than one device, you must call `.launch()` or use the CLI: `fabric run`",
         "Write fabric.launch() behind it."),
        ("strategy in ('fsdp', 'fsdp_cpu_offload') and accelerator == 'cpu'",
         "The strategy `fsdp` requires a GPU accelerator", "Write accelerator=\"cuda\"."),
    ),
    *rows(
        "Accelerator",
        ("gradient_accumulation_steps > 1 and gradient_accumulation_plugin",
         "You can only pass one of `gradient_accumulation_steps` and `gradient_accumulation_plugin`", "Keep one."),
        ("dynamo_plugin and dynamo_backend", "You cannot pass in both `dynamo_plugin` and `dynamo_backend`",
         "Keep one."),
        ("deepspeed_plugin and deepspeed_plugins",
         "You cannot pass in both `deepspeed_plugins` and `deepspeed_plugin`", "Keep one."),
        ("told(mixed_precision) and mixed_precision not in ('no', 'fp16', 'bf16', 'fp8', None, False)",
         "Unknown mixed_precision mode. Choose between ['no', 'fp8', 'fp16', 'bf16']", "Write \"fp16\" or \"bf16\"."),
        ("cpu and mixed_precision == 'fp16'", "fp16 mixed precision requires a GPU (not 'cpu')",
         "Write mixed_precision=\"bf16\"."),
    ),
    *rows(
        "DeepSpeedPlugin",
        ("told(offload_param_device) and offload_param_device != 'none' and zero_stage in (0, 1, 2)",
         "parameters are offloaded by ZeRO stage 3 alone; below it offload_param_device is not looked at",
         "Write zero_stage=3.", True),
    ),
    *rows(
        "DataLoader",
        ("batch_sampler and (shuffle or sampler or drop_last or (told(batch_size) and batch_size != 1))",
         "batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and drop_last",
         "Leave batch_size, shuffle, sampler and drop_last to the batch_sampler."),
        ("sampler and shuffle", "sampler option is mutually exclusive with shuffle", "Take shuffle out."),
        ("num_workers < 0",
         "num_workers option should be non-negative; use num_workers=0 to disable multiprocessing",
         "Write num_workers=0 or more."),
        ("timeout < 0", "timeout option should be non-negative", "Write timeout=0 or more."),
        ("multiprocessing_context and num_workers == 0",
         "multiprocessing_context can only be used with multi-process loading (num_workers > 0)",
         "Write num_workers=4, or take multiprocessing_context out."),
        ("persistent_workers and num_workers == 0", "persistent_workers option needs num_workers > 0",
         "Write num_workers=4, or take persistent_workers out."),
        ("prefetch_factor and num_workers == 0", "prefetch_factor option could only be specified in multiprocessing",
         "Write num_workers=4, or take prefetch_factor out."),
        ("told(batch_size) and batch_size == None and drop_last",
         "batch_size=None option disables auto-batching and is mutually exclusive with drop_last", "Take one out."),
    ),
    *rows(
        "FullyShardedDataParallel",
        ("process_group and device_mesh", "Cannot pass both process_group and device_mesh at the same time",
         "Keep one."),
        ("ignored_modules and ignored_states", "Cannot pass both ignored_modules and ignored_states at the same time",
         "Keep ignored_states."),
        ("sharding_strategy in ('torch.distributed.fsdp.ShardingStrategy.HYBRID_SHARD',"
         " 'torch.distributed.fsdp.ShardingStrategy._HYBRID_SHARD_ZERO2') and not auto_wrap_policy and"
         " not process_group and not device_mesh",
         "Manual wrapping with HYBRID_SHARD requires explicit specification of process group or device_mesh",
         "Write auto_wrap_policy or device_mesh."),
        ("auto_wrap_policy in ('functools.partial', 'torch.distributed.fsdp.wrap.ModuleWrapPolicy',"
         " 'torch.distributed.fsdp.wrap.transformer_auto_wrap_policy',"
         " 'torch.distributed.fsdp.wrap.size_based_auto_wrap_policy')"
         " and not use_orig_params and calls.get_peft_model and not mentions.lambda_auto_wrap_policy"
         " and not mentions.fsdp_auto_wrap_policy and not mentions.LambdaWrap and not mentions.CustomPolicy",
         "Must flatten tensors with uniform requires_grad when use_orig_params=False: in a block the frozen weights and"
         " LoRA's go into one", "Write use_orig_params=True."),
        ("auto_wrap_policy and not use_orig_params and compiled",
         "Dynamo only supports FSDP with use_orig_params=True (torch.compile of what FSDP has wrapped)",
         "Write use_orig_params=True."),
    ),
    *rows(
        "DistributedSampler",
        ("num_replicas > 0 and (rank >= num_replicas or rank < 0)",
         "Invalid rank, rank should be in the interval [0, num_replicas - 1]", "Count ranks from 0."),
    ),
    *rows(
        "compile",
        ("mode and not backend and mode not in ('default', 'reduce-overhead', 'max-autotune',"
         " 'max-autotune-no-cudagraphs', 'lite')",
         "Unrecognized mode, should be one of: default, reduce-overhead, max-autotune, max-autotune-no-cudagraphs",
         "Write one of them."),
    ),
    *rows("DistributedDataParallel", _REENTRANT),
    *rows("DistributedDataParallelKwargs", _REENTRANT),
    *rows(
        "BitsAndBytesConfig",
        ("load_in_4bit and load_in_8bit",
         "load_in_4bit and load_in_8bit are both True, but only one can be used at the same time", "Keep one."),
        ("load_in_4bit and fsdp and not told(bnb_4bit_quant_storage)",
         "Must flatten tensors with the same dtype but got torch.bfloat16 and torch.uint8: FSDP wants the 4-bit weights"
         " stored in the model's type", "Write bnb_4bit_quant_storage=torch.bfloat16."),
    ),
    *rows(
        "LLM",
        ("tensor_parallel_size > 1 and several and distributed_executor_backend != 'external_launcher' and"
         " not mentions.CUDA_VISIBLE_DEVICES and not conditional",
         "each of the processes that are started makes an engine of its own, with as many workers as"
         " tensor_parallel_size says",
         "Start it by plain python, or write distributed_executor_backend=\"external_launcher\"."),
    ),
)  # fmt: skip
