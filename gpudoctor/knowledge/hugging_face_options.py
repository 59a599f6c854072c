"""The arguments of the classes by which programs of transformers, trl, accelerate and LLaMA-Factory are configured.

Read from wheels by their syntax trees, without importing any: transformers 4.5 to 5.24 (nine of them), trl 0.7 to 0.24
(four), accelerate 0.20 to 1.10 (three), llamafactory 0.9.5. A name stands here when any of them has it; which release
lost one is in hugging_face_arguments.py. What releases brought since stands in library_names, and is added.
"""

import difflib
from functools import cache

from msgspec import Struct

from gpudoctor.knowledge.library_names import came, libraries, newest_release


class HuggingFaceClass(Struct, frozen=True):
    name: str
    package: str
    base: str
    """Whose arguments it has too; empty: none."""
    words: str
    """Its own ones, divided by blanks."""


CLASSES = (
    HuggingFaceClass(
        "TrainingArguments", "transformers", "",
        "accelerator_config activation_checkpointing activation_checkpointing_kwargs adafactor adam_beta1 adam_beta2 "
        "adam_epsilon auto_find_batch_size average_tokens_across_devices batch_eval_metrics bf16 bf16_full_eval "
        "data_seed dataloader_drop_last dataloader_in_order dataloader_multiprocessing_context dataloader_num_workers "
        "dataloader_persistent_workers dataloader_pin_memory dataloader_prefetch_factor ddp_backend "
        "ddp_broadcast_buffers ddp_bucket_cap_mb ddp_find_unused_parameters ddp_static_graph ddp_timeout debug "
        "deepspeed disable_tqdm dispatch_batches do_eval do_predict do_train enable_jit_checkpoint "
        "eval_accumulation_steps eval_delay eval_do_concat_batches eval_on_start eval_steps eval_strategy "
        "eval_use_gather_object evaluation_strategy fp16 fp16_backend fp16_full_eval fp16_opt_level fsdp fsdp_config "
        "fsdp_min_num_params fsdp_transformer_layer_cls_to_wrap full_determinism gradient_accumulation_steps "
        "gradient_checkpointing gradient_checkpointing_kwargs greater_is_better group_by_length half_precision_backend "
        "hub_always_push hub_model_id hub_private_repo hub_revision hub_strategy hub_token ignore_data_skip "
        "include_for_metrics include_inputs_for_metrics include_num_input_tokens_seen include_tokens_per_second "
        "jit_mode_eval label_names label_smoothing_factor learning_rate length_column_name liger_kernel_config "
        "load_best_model_at_end local_rank log_level log_level_replica log_on_each_node logging_dir logging_first_step "
        "logging_nan_inf_filter logging_steps logging_strategy lr_scheduler_kwargs lr_scheduler_type max_grad_norm "
        "max_steps metric_for_best_model mp_parameters neftune_noise_alpha no_cuda num_train_epochs optim optim_args "
        "optim_target_modules output_dir overwrite_output_dir parallelism_config past_index per_device_eval_batch_size "
        "per_device_train_batch_size per_gpu_eval_batch_size per_gpu_train_batch_size prediction_loss_only project "
        "push_to_hub push_to_hub_model_id push_to_hub_organization push_to_hub_token ray_scope remove_unused_columns "
        "report_to restore_callback_states_from_checkpoint resume_from_checkpoint run_name save_on_each_node "
        "save_only_model save_safetensors save_steps save_strategy save_total_limit seed sharded_ddp "
        "skip_memory_metrics split_batches tf32 torch_compile torch_compile_backend torch_compile_mode "
        "torch_empty_cache_steps torchdynamo tp_size tpu_metrics_debug tpu_num_cores trackio_bucket_id "
        "trackio_space_id trackio_static_space_id train_sampling_strategy use_cache use_cpu use_ipex "
        "use_legacy_prediction_loop use_liger_kernel use_mps_device warmup_ratio warmup_steps weight_decay xpu_backend",
    ),
    HuggingFaceClass(
        "Seq2SeqTrainingArguments", "transformers", "TrainingArguments",
        "generation_config generation_max_length generation_num_beams predict_with_generate sortish_sampler",
    ),
    HuggingFaceClass(
        "Trainer", "transformers", "",
        "args callbacks compute_loss_func compute_metrics data_collator eval_dataset model model_init "
        "optimizer_cls_and_kwargs optimizers preprocess_logits_for_metrics processing_class tokenizer train_dataset",
    ),
    HuggingFaceClass(
        "Seq2SeqTrainer", "transformers", "Trainer",
        "",
    ),
    HuggingFaceClass(
        "Accelerator", "accelerate", "",
        "cpu dataloader_config deepspeed_plugin deepspeed_plugins device_placement dispatch_batches dynamo_backend "
        "dynamo_plugin even_batches fp16 fsdp_plugin gradient_accumulation_plugin gradient_accumulation_steps "
        "kwargs_handlers log_with logging_dir megatron_lm_plugin mixed_precision parallelism_config project_config "
        "project_dir rng_types split_batches step_scheduler_with_optimizer torch_tp_plugin use_seedable_sampler",
    ),
    HuggingFaceClass(
        "DeepSpeedPlugin", "accelerate", "",
        "enable_msamp gradient_accumulation_steps gradient_clipping hf_ds_config is_train_batch_min msamp_opt_level "
        "offload_optimizer_device offload_optimizer_nvme_path offload_param_device offload_param_nvme_path "
        "transformer_moe_cls_names zero3_init_flag zero3_save_16bit_model zero_stage",
    ),
    HuggingFaceClass(
        "DataLoaderConfiguration", "accelerate", "",
        "data_seed dispatch_batches even_batches non_blocking split_batches use_seedable_sampler "
        "use_stateful_dataloader",
    ),
    HuggingFaceClass(
        "ProjectConfiguration", "accelerate", "",
        "automatic_checkpoint_naming iteration logging_dir project_dir save_on_each_node total_limit",
    ),
    HuggingFaceClass(
        "SFTConfig", "trl", "TrainingArguments",
        "activation_offloading assistant_only_loss chars_per_token chat_template_path completion_only_loss "
        "dataset_batch_size dataset_kwargs dataset_num_proc dataset_text_field eos_token eval_packing loss_type "
        "max_length max_seq_length model_init_kwargs num_of_sequences packing packing_strategy pad_to_multiple_of "
        "pad_token padding_free use_liger",
    ),
    HuggingFaceClass(
        "DPOConfig", "trl", "TrainingArguments",
        "base_model_attribute_name beta dataset_num_proc disable_dropout discopop_tau f_alpha_divergence_coef "
        "f_divergence_type force_use_ref_model generate_during_eval is_encoder_decoder label_pad_token_id "
        "label_smoothing ld_alpha loss_type loss_weights max_completion_length max_length max_prompt_length "
        "max_target_length model_adapter_name model_init_kwargs pad_token padding_free padding_value "
        "precompute_ref_batch_size precompute_ref_log_probs ref_adapter_name ref_model_init_kwargs "
        "ref_model_mixup_alpha ref_model_sync_steps reference_free rpo_alpha sync_ref_model tools truncation_mode "
        "use_liger_loss use_logits_to_keep use_num_logits_to_keep use_weighting",
    ),
    HuggingFaceClass(
        "GRPOConfig", "trl", "TrainingArguments",
        "beta cache_implementation delta disable_dropout ds3_gather_for_generation epsilon epsilon_high "
        "generation_batch_size generation_kwargs importance_sampling_level log_completions loss_type "
        "mask_truncated_completions max_completion_length max_prompt_length min_p model_init_kwargs "
        "num_completions_to_print num_generations num_iterations ref_model_mixup_alpha ref_model_sync_steps "
        "repetition_penalty reward_weights scale_rewards shuffle_dataset steps_per_generation sync_ref_model "
        "temperature top_entropy_quantile top_k top_p use_liger_loss use_transformers_paged use_vllm vllm_device "
        "vllm_dtype vllm_enable_prefix_caching vllm_enable_sleep_mode vllm_gpu_memory_utilization "
        "vllm_guided_decoding_regex vllm_importance_sampling_cap vllm_importance_sampling_correction "
        "vllm_max_model_len vllm_mode vllm_model_impl vllm_server_base_url vllm_server_host vllm_server_port "
        "vllm_server_timeout vllm_tensor_parallel_size wandb_log_unique_prompts",
    ),
    HuggingFaceClass(
        "KTOConfig", "trl", "TrainingArguments",
        "base_model_attribute_name beta dataset_num_proc desirable_weight disable_dropout generate_during_eval "
        "is_encoder_decoder label_pad_token_id loss_type max_completion_length max_length max_prompt_length "
        "model_init_kwargs padding_value precompute_ref_log_probs ref_model_init_kwargs truncation_mode "
        "undesirable_weight use_liger_loss",
    ),
    HuggingFaceClass(
        "ORPOConfig", "trl", "TrainingArguments",
        "beta dataset_num_proc disable_dropout generate_during_eval is_encoder_decoder label_pad_token_id "
        "max_completion_length max_length max_prompt_length model_init_kwargs padding_value truncation_mode",
    ),
    HuggingFaceClass(
        "CPOConfig", "trl", "TrainingArguments",
        "alpha beta cpo_alpha dataset_num_proc disable_dropout generate_during_eval is_encoder_decoder "
        "label_pad_token_id label_smoothing loss_type max_completion_length max_length max_prompt_length "
        "model_init_kwargs padding_value simpo_gamma truncation_mode",
    ),
    HuggingFaceClass(
        "RewardConfig", "trl", "TrainingArguments",
        "activation_offloading center_rewards_coefficient chat_template_path dataset_num_proc disable_dropout "
        "eos_token max_length model_init_kwargs pad_to_multiple_of pad_token",
    ),
    HuggingFaceClass(
        "ModelConfig", "trl", "",
        "attn_implementation bnb_4bit_quant_type dtype load_in_4bit load_in_8bit lora_alpha lora_dropout "
        "lora_modules_to_save lora_r lora_target_modules lora_target_parameters lora_task_type model_name_or_path "
        "model_revision torch_dtype trust_remote_code use_bnb_nested_quant use_dora use_peft use_rslora",
    ),
    HuggingFaceClass(
        "ScriptArguments", "trl", "",
        "data_parallel_size dataset_name datasets dtype enable_prefix_caching enforce_eager gpu_memory_utilization "
        "host kv_cache_dtype log_level log_with max_model_len model model_name port revision reward_funcs "
        "reward_model_name_or_path rm_adapter score_clip seed streaming tensor_parallel_size test_split_size "
        "trust_remote_code use_safetensors use_score_norm use_score_scaling vllm_model_impl",
    ),
    HuggingFaceClass(
        "llamafactory", "llamafactory", "Seq2SeqTrainingArguments",
        "adapter_folder adapter_name_or_path add_special_tokens add_tokens additional_target apollo_layerwise "
        "apollo_proj apollo_proj_type apollo_rank apollo_scale apollo_scale_front apollo_scale_type apollo_target "
        "apollo_update_interval asft_alpha audio_sampling_rate badam_mask_mode badam_mode badam_start_block "
        "badam_switch_interval badam_switch_mode badam_update_ratio badam_verbose block_diag_attn buffer_size "
        "cache_dir compute_accuracy compute_dtype create_new_adapter crop_to_patches cutoff_len "
        "data_shared_file_system dataset dataset_dir default_system device_map disable_gradient_checkpointing "
        "disable_shuffling do_sample double_quantization dpo_label_smoothing eaft_alpha early_stopping_steps "
        "enable_liger_kernel enable_thinking enable_torch_profiler eval_dataset eval_num_beams eval_on_each_dataset "
        "export_device export_dir export_hub_model_id export_legacy_format export_quantization_bit "
        "export_quantization_dataset export_quantization_maxlen export_quantization_nsamples export_size "
        "finetuning_type flash_attn fp8 fp8_backend fp8_enable_fsdp_float8_all_gather freeze_extra_modules "
        "freeze_language_model freeze_multi_modal_projector freeze_trainable_layers freeze_trainable_modules "
        "freeze_vision_tower galore_layerwise galore_proj_type galore_rank galore_scale galore_target "
        "galore_update_interval hf_hub_token hyper_parallel_args ignore_pad_token_for_loss image_do_pan_and_scan "
        "image_max_pixels image_min_pixels include_effective_tokens_per_second infer_backend infer_dtype "
        "init_special_tokens interleave_probs kt_expert_checkpoint_path kt_lora_expert_intermediate_size "
        "kt_lora_expert_num kt_use_lora_experts kt_weight_path kto_chosen_weight kto_rejected_weight ld_alpha "
        "length_penalty lora_alpha lora_dropout lora_rank lora_target loraplus_lr_embedding loraplus_lr_ratio "
        "low_cpu_mem_usage mask_history master_addr master_port max_length max_new_tokens max_samples media_dir "
        "mix_strategy mixture_of_depths model_max_length model_name_or_path model_revision module_dropout "
        "moe_aux_loss_coef ms_hub_token neat_packing new_special_tokens_config num_beams offload_folder "
        "oft_block_size oft_rank oft_target om_hub_token overwrite_cache packing pissa_convert pissa_init pissa_iter "
        "plot_loss ppo_buffer_size ppo_epochs ppo_score_norm ppo_target ppo_whiten_rewards pref_bco_weight pref_beta "
        "pref_ftx pref_loss preprocessing_batch_size preprocessing_num_workers preserve_thinking print_param_status "
        "profile_modules profiler_active_steps profiler_output_dir profiler_profile_memory profiler_record_shapes "
        "profiler_repeat profiler_wait_steps profiler_warmup_steps profiler_with_stack pure_bf16 quantization_bit "
        "quantization_device_map quantization_method quantization_type ray_init_kwargs ray_num_workers ref_model "
        "ref_model_adapters ref_model_quantization_bit repetition_penalty resize_vocab reward_model "
        "reward_model_adapters reward_model_quantization_bit reward_model_type rope_scaling sglang_config "
        "sglang_lora_backend sglang_maxlen sglang_mem_fraction sglang_tp_size shift_attn simpo_gamma "
        "skip_special_tokens split_special_tokens stage streaming swanlab_api_key swanlab_lark_secret "
        "swanlab_lark_webhook_url swanlab_logdir swanlab_mode swanlab_project swanlab_run_name swanlab_workspace "
        "temperature template tokenized_path tool_format top_k top_p train_from_scratch train_on_prompt "
        "trust_remote_code upcast_layernorm upcast_lmhead_output use_adam_mini use_apollo use_asft_loss "
        "use_audio_in_video use_badam use_dft_loss use_dora use_eaft_loss use_fast_tokenizer use_galore "
        "use_hyper_parallel use_kt use_kv_cache use_llama_pro use_mca use_muon use_reentrant_gc use_rslora "
        "use_swanlab use_unsloth use_unsloth_gc use_v1_kernels val_size video_fps video_max_pixels video_maxlen "
        "video_min_pixels vllm_config vllm_enforce_eager vllm_gpu_util vllm_max_lora_rank vllm_maxlen",
    ),
)  # fmt: skip
_BY_NAME = {each.name: each for each in CLASSES}
CHOICES = {
    "eval_strategy": "no steps epoch",
    "evaluation_strategy": "no steps epoch",
    "logging_strategy": "no steps epoch",
    "save_strategy": "no steps epoch best",
    "hub_strategy": "end every_save checkpoint all_checkpoints",
    "lr_scheduler_type": "linear cosine cosine_with_restarts polynomial constant constant_with_warmup inverse_sqrt"
    " reduce_lr_on_plateau cosine_with_min_lr cosine_warmup_with_min_lr warmup_stable_decay greedy",
}
"""Values of TrainingArguments that are an enumeration's; argparse holds the command line against them too."""


_LLAMAFACTORY = "0.9.5"


def newest_of(package: str) -> str:
    """The newest release whose arguments are here."""
    return newest_release(package) if package in libraries() else _LLAMAFACTORY


def packages_of(name: str) -> tuple[str, ...]:
    """Of whose releases a class's arguments are: its own, and those of what it inherits."""
    found: list[str] = []
    known = _BY_NAME.get(name)
    while known is not None:
        found += [known.package] if known.package not in found else []
        known = _BY_NAME.get(known.base)
    return tuple(found)


@cache
def arguments_of(name: str, package: str) -> frozenset[str]:
    """What a class takes, with what it inherits; empty of one that is not known."""
    found: list[str] = []
    known = _BY_NAME.get(name)
    while known is not None and (known.package == package or found):
        found += (*known.words.split(), *came(known.package, known.name))
        known = _BY_NAME.get(known.base)
    return frozenset(found)


def nearest(word: str, known: frozenset[str], cutoff: float = 0.8) -> str:
    """The argument that was meant; empty where none is near."""
    return next(iter(difflib.get_close_matches(word, known, 1, cutoff)), "")
