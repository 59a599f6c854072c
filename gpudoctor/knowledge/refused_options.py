"""What programs refuse in the options that they are told, or take and then do something else: a row for each check of
their sources.

Megatron-LM (core 0.16), training/arguments.py (validate_args), core/optimizer_param_scheduler.py,
core/parallel_state.py, core/model_parallel_config.py, transformer_config.py,
moe/moe_layer.py; torchtune 0.6, recipes; torchtitan, distributed/parallel_dims.py; nanotron, parallel/context.py;
llm-foundry, utils/config_utils.py; verl 0.5, ray_trainer.py; finetrainers, parallel/ptd.py. Those of transformers,
axolotl, LLaMA-Factory and DeepSpeed are in refused_training.py, those of calls in refused_calls.py, of servers in
refused_engines.py.

`when` is an expression of gpudoctor.lint.conditions. `world` is the number of ranks, `accelerate.` what accelerate's
file says, `ds.` what DeepSpeed's file says, `calls.X` whether the program calls X.
"""

from msgspec import Struct


class RefusedOptions(Struct, frozen=True):
    program: str
    when: str
    says: str
    """The program's own words, as far as they are fixed; of a silent one, what it does."""
    fix: str
    is_silent: bool = False
    """It is taken, and something else is done than is written."""


Row = tuple[str, str, str] | tuple[str, str, str, bool]


def rows(program: str, *given: Row) -> tuple[RefusedOptions, ...]:
    return tuple(RefusedOptions(program, *row) for row in given)


_TP, _PP, _CP = "tensor_model_parallel_size", "pipeline_model_parallel_size", "context_parallel_size"
_EP = "expert_model_parallel_size"
_NEEDED = ("num_layers", "hidden_size", "num_attention_heads", "max_position_embeddings")
"""Megatron's required_args."""

DEFAULTS: dict[str, dict[str, object]] = {
    "megatron": {_TP: 1, _PP: 1, _CP: 1, _EP: 1, "overlap_p2p_comm": True, "lr_warmup_iters": 0,
                 "lr_warmup_samples": 0, "min_lr": 0.0, "recompute_num_layers": None},
    "nemo": {_TP: 1, _PP: 1, _CP: 1, _EP: 1, "sequence_parallel": False},
    "torchtune": {"gradient_accumulation_steps": 1, "enable_activation_checkpointing": False},
    "torchtitan": {"parallelism.data_parallel_shard_degree": -1, "parallelism.tensor_parallel_degree": 1,
                   "parallelism.data_parallel_replicate_degree": 1, "parallelism.context_parallel_degree": 1,
                   "parallelism.pipeline_parallel_degree": 1},
    "verl": {"actor_rollout_ref.rollout.n": 1, "actor_rollout_ref.actor.megatron.tensor_model_parallel_size": 1,
             "actor_rollout_ref.actor.megatron.pipeline_model_parallel_size": 1,
             "actor_rollout_ref.actor.megatron.context_parallel_size": 1},
    "nanotron": {"parallelism.context_parallel_size": 1, "parallelism.dp": 1, "parallelism.tp": 1, "parallelism.pp": 1},
    "finetrainers": {"pp_degree": 1, "dp_degree": 1, "dp_shards": 1, "cp_degree": 1, "tp_degree": 1},
}  # fmt: skip
"""Of options that are not told and that a row asks for."""

REFUSED = (
    *rows(
        "nanotron",
        ("parallelism.dp * parallelism.tp * parallelism.pp * parallelism.context_parallel_size != world",
         "TP*CP*DP*PP is not WORLD_SIZE: the processes to run all replicas must be equal to the world size",
         "Make dp times tp times pp the number of processes that the launcher starts."),
    ),
    *rows(
        "megatron",
        *((f"{' and '.join(name for name in _NEEDED if name != lacking)} and not {lacking} and not use_checkpoint_args"
           " and not yaml_cfg and not encoder_num_layers and not hybrid_layer_pattern and not load and"
           " not pretrained_checkpoint", f"{lacking} argument is None", f"Add --{lacking.replace('_', '-')}.")
          for lacking in _NEEDED),
        (f"{' and '.join(_NEEDED)} and not seq_length and not encoder_seq_length and not use_checkpoint_args"
         " and not load", "assert args.encoder_seq_length is not None", "Add --seq-length."),
        ("lr_warmup_iters > 0 and lr_decay_iters > 0 and lr_warmup_iters >= lr_decay_iters",
         "assert self.lr_warmup_steps < self.lr_decay_steps", "Warm up for fewer iterations than --lr-decay-iters."),
        ("lr_warmup_iters > 0 and not lr_decay_iters and train_iters > 0 and lr_warmup_iters >= train_iters",
         "assert self.lr_warmup_steps < self.lr_decay_steps, which are --train-iters unless they are told",
         "Warm up for fewer iterations than --train-iters."),
        ("lr_warmup_samples > 0 and lr_decay_samples > 0 and lr_warmup_samples >= lr_decay_samples",
         "assert self.lr_warmup_steps < self.lr_decay_steps", "Warm up for fewer samples than --lr-decay-samples."),
        ("num_layers_per_virtual_pipeline_stage and pipeline_model_parallel_size <= 1",
         "When interleaved schedule is used, pipeline-model-parallel size should be greater than 1",
         "Take --num-layers-per-virtual-pipeline-stage out, or write --pipeline-model-parallel-size 2 or more."),
        ("num_virtual_stages_per_pipeline_rank > 1 and pipeline_model_parallel_size <= 1",
         "When interleaved schedule is used, pipeline-model-parallel size should be greater than 1",
         "Take --num-virtual-stages-per-pipeline-rank out, or write --pipeline-model-parallel-size 2 or more."),
        ("num_layers_per_virtual_pipeline_stage and num_virtual_stages_per_pipeline_rank",
         "No more than one of these can be set at the same time", "Keep one of the two."),
        ("num_layers and num_layers % pipeline_model_parallel_size == 0 and not account_for_embedding_in_pipeline_split"
         " and not account_for_loss_in_pipeline_split and"
         " (num_layers // pipeline_model_parallel_size) % num_layers_per_virtual_pipeline_stage != 0",
         "number of layers per pipeline stage must be divisible number of layers per virtual pipeline stage",
         "Take a number that divides the layers of one pipeline stage."),
        ("expert_model_parallel_size > 1 and not num_experts",
         "num_moe_experts must be non None to use expert-parallel", "Write --num-experts, or take it out."),
        ("expert_model_parallel_size > 1 and num_experts % expert_model_parallel_size != 0",
         "Number of experts should be a multiple of expert model parallel size",
         "Take an --expert-model-parallel-size that divides the experts."),
        ("num_experts > 1 and tensor_model_parallel_size > 1 and not sequence_parallel and not skip_train",
         "During training, performance may degrade if MoE and tensor parallelism are enabled without also enabling"
         " sequence parallelism; MoELayer ends with a ValueError", "Add --sequence-parallel."),
        ("context_parallel_size > 1 and seq_length % (context_parallel_size * 2) != 0",
         "seq-length should be a multiple of 2 * context-parallel-size if context-parallel-size > 1",
         "Take a --seq-length that is a multiple of twice the context-parallel size."),
        ("sequence_parallel and tensor_model_parallel_size > 1 and context_parallel_size <= 1"
         " and seq_length % tensor_model_parallel_size != 0",
         "First dimension of the tensor should be divisible by tensor parallel size",
         "Take a --seq-length that is a multiple of the tensor parallel size."),
        ("max_position_embeddings < seq_length", "max_position_embeddings must be greater than or equal to seq_length",
         "Write --max-position-embeddings as large as --seq-length, or larger."),
        ("num_query_groups < tensor_model_parallel_size and tensor_model_parallel_size % num_query_groups != 0",
         "num_query_groups must be a multiple or divisor of tensor_model_parallel_size",
         "Take a tensor parallel size that divides the query groups."),
        ("overlap_param_gather and not use_distributed_optimizer and not use_megatron_fsdp and not use_custom_fsdp"
         " and optimizer != 'dist_muon'",
         "--overlap-param-gather only supported with distributed optimizer", "Add --use-distributed-optimizer."),
        ("overlap_param_gather and not overlap_grad_reduce",
         "Must use --overlap-param-gather with --overlap-grad-reduce", "Add --overlap-grad-reduce."),
        ("use_torch_fsdp2 and pipeline_model_parallel_size > 1",
         "--use-torch-fsdp2 is not supported with pipeline parallelism", "Keep one of the two."),
        ("use_torch_fsdp2 and expert_model_parallel_size > 1",
         "--use-torch-fsdp2 is not supported with expert parallelism", "Keep one of the two."),
        ("use_torch_fsdp2 and use_distributed_optimizer",
         "--use-torch-fsdp2 is not supported with MCore's distributed optimizer", "Keep one of the two."),
        ("use_torch_fsdp2 and not no_gradient_accumulation_fusion",
         "--use-torch-fsdp2 is not supported with gradient accumulation fusion",
         "Add --no-gradient-accumulation-fusion."),
        ("use_torch_fsdp2 and not untie_embeddings_and_output_weights",
         "--use-torch-fsdp2 requires --untie-embeddings-and-output-weights",
         "Add --untie-embeddings-and-output-weights."),
        ("use_torch_fsdp2 and fp16", "--use-torch-fsdp2 not supported with fp16 yet", "Write --bf16."),
        ("train_iters and train_samples", "expected iteration-based training", "Keep one of the two."),
        ("train_iters and lr_decay_samples", "expected iteration-based learning rate decay", "Write --lr-decay-iters."),
        ("train_iters and lr_warmup_samples > 0", "expected iteration-based learning rate warmup",
         "Write --lr-warmup-iters."),
        ("train_samples and lr_decay_iters", "expected sample-based learning rate decay", "Write --lr-decay-samples."),
        ("train_samples and lr_warmup_iters > 0", "expected sample-based learnig rate warmup",
         "Write --lr-warmup-samples."),
        ("lr_warmup_fraction and lr_warmup_iters > 0",
         "can only specify one of lr-warmup-fraction and lr-warmup-iters", "Keep one of the two."),
        ("lr < min_lr", "min_lr <= lr is asserted", "Write a --min-lr below --lr."),
        ("save and not save_interval", "--save is told without --save-interval: assertion", "Write --save-interval."),
        ("recompute_granularity == 'selective' and recompute_method",
         "recompute method is not yet supported for selective recomputing granularity",
         "Take --recompute-method out, or write --recompute-granularity full."),
        ("recompute_granularity == 'full' and not recompute_method",
         "Using recompute_granularity: full with recompute_method None is refused by the transformer's configuration",
         "Add --recompute-method uniform --recompute-num-layers 1."),
        ("recompute_granularity == 'full' and recompute_method and not recompute_num_layers",
         "When using recompute_granularity: full, recompute_num_layers must be between 1 and the layers of a stage",
         "Add --recompute-num-layers 1."),
        ("distribute_saved_activations and tensor_model_parallel_size <= 1",
         "can distribute recomputed activations only across tensor model parallel groups",
         "Take --distribute-saved-activations out."),
        ("distribute_saved_activations and sequence_parallel",
         "distribute_saved_activations must be false when sequence parallel is enabled", "Keep one of the two."),
        ("tp_comm_overlap and not sequence_parallel",
         "Tensor parallel communication/GEMM overlap can happen only when sequence parallelism is enabled",
         "Add --sequence-parallel."),
        ("ckpt_format == 'torch_dcp' and not use_torch_fsdp2", "--ckpt-format torch_dcp is only tested with FSDP",
         "Write --ckpt-format torch_dist."),
        ("ckpt_format == 'fsdp_dtensor' and not use_megatron_fsdp",
         "--ckpt-format fsdp_dtensor is only tested with Megatron FSDP", "Write --ckpt-format torch_dist."),
        ("mock_data and data_path", "A single data source must be provided in training mode", "Keep one of the two."),
        ("optimizer_cpu_offload and not use_precision_aware_optimizer",
         "The optimizer cpu offload must be used in conjunction with --use-precision-aware-optimizer",
         "Add --use-precision-aware-optimizer."),
        ("fp16_lm_cross_entropy and not fp16", "lm cross entropy in fp16 only support in fp16 mode", "Take it out."),
        (f"{_EP} > 1 and not expert_tensor_parallel_size and world % ({_TP} * {_EP} * {_PP}) != 0",
         "world_size is not divisible by expert_tensor_model_pipeline_parallel size",
         "Take sizes whose product divides the ranks; --expert-tensor-parallel-size 1 gives experts more of them."),
        ("moe_enable_deepep and moe_token_dispatcher_type != 'flex'",
         "DeepEP backend is only supported with flex token dispatcher", "Write --moe-token-dispatcher-type flex."),
        ("expert_tensor_parallel_size and"
         " world % (expert_tensor_parallel_size * expert_model_parallel_size * pipeline_model_parallel_size) != 0",
         "world_size is not divisible by expert_tensor_model_pipeline_parallel size",
         "Start a multiple of expert tensor x expert x pipeline parallel ranks."),
        ("fp8_param_gather and not use_distributed_optimizer and not use_torch_fsdp2 and not use_megatron_fsdp",
         "--fp8-param-gather only supported with distributed optimizer", "Add --use-distributed-optimizer."),
    ),
    *rows(
        "nemo",
        ("num_layers % pipeline_model_parallel_size != 0 and not num_layers_in_first_pipeline_stage"
         " and not num_layers_in_last_pipeline_stage and not pipeline_model_parallel_layout",
         "num_layers should be divisible by pipeline_model_parallel_size",
         "Take a pipeline_model_parallel_size that divides the layers."),
        ("num_attention_heads % tensor_model_parallel_size != 0",
         "num_attention_heads must be a multiple of tensor_model_parallel_size",
         "Take a tensor_model_parallel_size that divides the heads."),
        ("world % (tensor_model_parallel_size * pipeline_model_parallel_size * context_parallel_size) != 0",
         "world_size is not divisible by tensor x pipeline x context parallel size",
         "Start a multiple of these ranks: devices times num_nodes."),
        ("world % (tensor_model_parallel_size * pipeline_model_parallel_size * context_parallel_size) == 0 and"
         " global_batch_size % (micro_batch_size * (world //"
         " (tensor_model_parallel_size * pipeline_model_parallel_size * context_parallel_size))) != 0",
         "global batch size is not divisible by micro batch size times data parallel size",
         "Take a global_batch_size that is a multiple of micro_batch_size times the copies of the model."),
        ("sequence_parallel and tensor_model_parallel_size <= 1",
         "Cannot use sequence parallelism without tensor parallelism",
         "Write sequence_parallel=False, or tensor_model_parallel_size=2 or more."),
        ("pipeline_model_parallel_size > 1 and told(pipeline_dtype) and not pipeline_dtype",
         "When using pipeline parallelism, pipeline_dtype must be specified", "Write pipeline_dtype=torch.bfloat16."),
        ("virtual_pipeline_model_parallel_size > 1 and pipeline_model_parallel_size <= 1",
         "pipeline-model-parallel size should be greater than 1 with interleaved schedule",
         "Take virtual_pipeline_model_parallel_size out."),
        ("context_parallel_size > 1 and seq_length % (2 * context_parallel_size) != 0",
         "seq_length must be a multiple of twice the context parallel size", "Take such a seq_length."),
    ),
    *rows(
        "torchtune",
        ("optimizer_in_bwd and gradient_accumulation_steps > 1",
         "Gradient accumulation is not supported with optimizer in bwd",
         "Write gradient_accumulation_steps: 1, or optimizer_in_bwd: False."),
        ("enable_activation_offloading and not enable_activation_checkpointing",
         "enable_activation_offloading should only be True when enable_activation_checkpointing is True",
         "Write enable_activation_checkpointing: True too."),
        ("optimizer_in_bwd and clip_grad_norm",
         "Gradient clipping is not supported with optimizer in bwd", "Keep one of the two."),
        ("tensor_parallel_dim > 1 and not tensor_parallel_plan",
         "Tensor Parallel plan needs to be provided when tensor parallel is enabled", "Write tensor_parallel_plan."),
        ("optimizer_in_bwd and compile.optimizer_step",
         "optimizer_in_bwd not supported with compiling the optimizer step", "Keep one of the two."),
        ("context_parallel_dim > 1 and enable_fp8_training",
         "Context Parallel for fp8 training is not currently supported", "Keep one of the two."),
        ("run_val_every_n_steps and not dataset_val",
         "run_val_every_n_steps is set but dataset_val is not configured", "Write dataset_val."),
        ("tensor_parallel_dim > 1 and world % tensor_parallel_dim != 0",
         "world_size must be divisible by tensor_parallel_dim", "Start a multiple of tensor_parallel_dim."),
        ("dtype == 'fp16'", "full fp16 training is not supported with this recipe. Please use bf16 or fp32 instead",
         "Write dtype: bf16."),
    ),
    *rows(
        "torchtitan",
        ("parallelism.data_parallel_shard_degree > 0 and world % (parallelism.data_parallel_replicate_degree *"
         " parallelism.data_parallel_shard_degree * parallelism.context_parallel_degree *"
         " parallelism.tensor_parallel_degree * parallelism.pipeline_parallel_degree) == 0 and world !="
         " (parallelism.data_parallel_replicate_degree * parallelism.data_parallel_shard_degree *"
         " parallelism.context_parallel_degree * parallelism.tensor_parallel_degree *"
         " parallelism.pipeline_parallel_degree)",
         "Invalid parallel dims: the product of the degrees must be the world size",
         "Write data_parallel_shard_degree = -1, which takes the ranks that are left."),
        ("parallelism.data_parallel_shard_degree == -1 and world % (parallelism.data_parallel_replicate_degree *"
         " parallelism.context_parallel_degree * parallelism.tensor_parallel_degree *"
         " parallelism.pipeline_parallel_degree) != 0",
         "Invalid parallel dims: the world size is no multiple of the degrees",
         "Take degrees whose product divides the ranks."),
        ("training.seq_len % (parallelism.tensor_parallel_degree * 2 * parallelism.context_parallel_degree) != 0"
         " and parallelism.context_parallel_degree > 1",
         "Sequence length must be divisible by the product of TP degree and 2 * CP degree", "Take such a seq_len."),
        ("parallelism.tensor_parallel_degree > 1 and training.seq_len % parallelism.tensor_parallel_degree != 0",
         "Sequence length must be divisible by the TP degree", "Take such a seq_len."),
        ("parallelism.expert_parallel_degree > 1 and (world // (parallelism.data_parallel_replicate_degree *"
         " parallelism.pipeline_parallel_degree)) % parallelism.expert_parallel_degree != 0",
         "the expert parallel degree must divide dp_shard * cp * tp", "Take a degree that divides it."),
        ("training.global_batch_size > 0 and parallelism.data_parallel_shard_degree > 0 and"
         " training.global_batch_size % (training.local_batch_size * parallelism.data_parallel_replicate_degree *"
         " parallelism.data_parallel_shard_degree) != 0",
         "global batch size must be multiple of local batch size times data-parallel degree", "Take such a size."),
    ),
    *rows(
        "composer",
        ("global_train_batch_size % world != 0",
         "Global batch size is not divisible by the world size; as a result, the batch size would be truncated",
         "Take a global_train_batch_size that is a multiple of the ranks."),
    ),
    *rows(
        "finetrainers",
        ("(pp_degree * dp_degree * dp_shards * cp_degree * tp_degree) != world",
         "World size must be divisible by the product of all parallel degrees and data parallel shards",
         "Take degrees whose product is the number of ranks."),
    ),
    *rows(
        "verl",
        ("data.train_batch_size < actor_rollout_ref.actor.ppo_mini_batch_size and"
         " not actor_rollout_ref.actor.use_dynamic_bsz",
         "assert train_batch_size >= ppo_mini_batch_size",
         "Write a ppo_mini_batch_size of at most data.train_batch_size."),
        ("data.train_batch_size < critic.ppo_mini_batch_size and not critic.use_dynamic_bsz",
         "assert train_batch_size >= critic.ppo_mini_batch_size",
         "Write a critic.ppo_mini_batch_size of at most data.train_batch_size."),
        ("actor_rollout_ref.actor.ppo_micro_batch_size and actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu",
         "You have set both ppo_micro_batch_size and ppo_micro_batch_size_per_gpu",
         "Keep ppo_micro_batch_size_per_gpu."),
        ("(data.train_batch_size * actor_rollout_ref.rollout.n) % world != 0 and not told(config_name) and"
         " actor_rollout_ref.actor.strategy != 'megatron' and not actor_rollout_ref.actor.use_dynamic_bsz",
         "real_train_batch_size must be divisible by total n_gpus",
         "Take a train_batch_size whose product with rollout.n is a multiple of the GPUs."),
        ("told(actor_rollout_ref.actor.ppo_mini_batch_size) and not actor_rollout_ref.actor.ppo_micro_batch_size"
         " and not actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu and"
         " not actor_rollout_ref.actor.use_dynamic_bsz and not told(config_name) and not told(config_path)",
         "[actor] set at least one of actor.ppo_micro_batch_size or actor.ppo_micro_batch_size_per_gpu",
         "Write actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu."),
        ("world % actor_rollout_ref.rollout.tensor_model_parallel_size != 0",
         "rollout world_size is not divisible by infer_tp", "Take a tensor_model_parallel_size that divides the GPUs."),
        ("actor_rollout_ref.actor.strategy == 'megatron' and world %"
         " (actor_rollout_ref.actor.megatron.tensor_model_parallel_size *"
         " actor_rollout_ref.actor.megatron.pipeline_model_parallel_size *"
         " actor_rollout_ref.actor.megatron.context_parallel_size) != 0",
         "n_gpus must be divisible by model_parallel_size times context_parallel_size",
         "Take sizes whose product divides the GPUs."),
        ("actor_rollout_ref.actor.ppo_mini_batch_size % actor_rollout_ref.actor.ppo_micro_batch_size != 0",
         "ppo_mini_batch_size must be divisible by ppo_micro_batch_size", "Take such a size."),
        ("actor_rollout_ref.ref.log_prob_micro_batch_size and"
         " actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu",
         "You have set both log_prob_micro_batch_size and log_prob_micro_batch_size_per_gpu", "Keep the one per GPU."),
        ("actor_rollout_ref.rollout.log_prob_micro_batch_size and"
         " actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu",
         "You have set both log_prob_micro_batch_size and log_prob_micro_batch_size_per_gpu", "Keep the one per GPU."),
        ("actor_rollout_ref.rollout.val_kwargs.do_sample and told(actor_rollout_ref.rollout.temperature) and"
         " actor_rollout_ref.rollout.temperature == 0",
         "validation gen temperature should be greater than 0 when enabling do_sample", "Write a temperature."),
        ("actor_rollout_ref.actor.ulysses_sequence_parallel_size > 1 and"
         " told(actor_rollout_ref.model.use_remove_padding) and not actor_rollout_ref.model.use_remove_padding",
         "When using sequence parallelism for actor/ref policy, you must enable use_remove_padding",
         "Write actor_rollout_ref.model.use_remove_padding=True."),
    ),
)  # fmt: skip
