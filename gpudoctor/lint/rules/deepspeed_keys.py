"""Rule of the keys of DeepSpeed's file: D13."""

from collections.abc import Iterator
from difflib import get_close_matches

from gpudoctor.lint.model import LintJob
from gpudoctor.lint.rule import LintFinding, rule
from gpudoctor.lint.rules.exclusive_options import deepspeed_files
from gpudoctor.lint.told_files import of_file

_ZERO = (
    "stage contiguous_gradients reduce_scatter reduce_bucket_size use_multi_rank_bucket_allreduce allgather_partitions"
    " allgather_bucket_size overlap_comm load_from_fp32_weights elastic_checkpoint offload_param offload_optimizer"
    " zenflow sub_group_size cpu_offload_param cpu_offload_use_pin_memory cpu_offload prefetch_bucket_size"
    " stage3_prefetch_bucket_size param_persistence_threshold stage3_param_persistence_threshold"
    " model_persistence_threshold stage3_model_persistence_threshold max_live_parameters stage3_max_live_parameters"
    " max_reuse_distance stage3_max_reuse_distance gather_16bit_weights_on_model_save"
    " stage3_gather_16bit_weights_on_model_save stage3_gather_fp16_weights_on_model_save module_granularity_threshold"
    " stage3_module_granularity_threshold use_all_reduce_for_fetch_params stage3_use_all_reduce_for_fetch_params"
    " allgather_sequential stage3_allgather_sequential ignore_unused_parameters legacy_stage1 round_robin_gradients"
    " zero_hpz_partition_size zero_quantized_weights zero_quantized_nontrainable_weights zero_quantized_gradients"
    " zeropp_loco_param mics_shard_size mics_hierarchical_params_gather memory_efficient_linear"
    " pipeline_loading_checkpoint override_module_apply log_trace_cache_warnings enable_sanity_checks"
    " save_muon_momentum_buffer_in_memory leaf_module grad_hooks"
)
_KEYS = {
    "zero_optimization": _ZERO,
    "zero_optimization.offload_param": "device nvme_path buffer_count buffer_size max_in_cpu pin_memory",
    "zero_optimization.offload_optimizer": "device nvme_path buffer_count pin_memory pipeline pipeline_read"
    " pipeline_write fast_init ratio super_offload cpuadam_cores_perc",
    "bf16": "enabled immediate_grad_update check_grad_overflow bf16_master_weights_and_grads bf16_optimizer_states"
    " loss_scale initial_scale_power auto_cast",
    "fp16": "enabled auto_cast loss_scale initial_scale_power loss_scale_window hysteresis consecutive_hysteresis"
    " min_loss_scale fp16_master_weights_and_grads opt_level loss_scale_tolerance",
}
"""By DeepSpeed 0.19, and what earlier releases had: the parts that refuse a key that they do not know."""
_KNOWN = {part: frozenset(names.split()) for part, names in _KEYS.items()}
_LIKE = 0.84
"""How alike a key has to be to one that there is; another one may be of another release."""

_FILE = (
    "deepspeed --num_gpus 4 train.py --deepspeed_config ds.json\n#@ file ds.json\n"
    '{{\n  "train_micro_batch_size_per_gpu": 4,\n  "zero_optimization": {{"stage": 3, {}}}\n}}\n'
)


@rule(
    "D13",
    title="Keys of DeepSpeed's file are spelled as DeepSpeed has them",
    source="DeepSpeed 0.19, runtime/config_utils.py: DeepSpeedConfigModel has extra=forbid; zero/config.py,"
    " zero/offload_config.py, precision_config.py",
    leads_to=("program-error",),
    bad=(
        _FILE.format('"offload_optimiser": {"device": "cpu"}'),
        _FILE.format('"overlap_com": true'),
    ),
    good=(_FILE.format('"offload_optimizer": {"device": "cpu"}'), _FILE.format('"of_a_later_release": 1')),
)
def key_that_is_nearly_one(job: LintJob) -> Iterator[LintFinding]:
    """zero_optimization, its offload parts, fp16 and bf16 are checked by pydantic, which refuses a key that it does not
    know: Extra inputs are not permitted."""
    for _launch, section in deepspeed_files(job):
        said: set[str] = set()
        for name, option in of_file(section).items():
            for part, known in _KNOWN.items():
                rest = name.removeprefix(f"{part}.")
                key = rest.split(".")[0]
                if rest == name or key in known or key in said or f"{part}.{key}" in _KNOWN:
                    continue
                near = get_close_matches(key, known, 1, _LIKE)
                if not near:
                    continue
                said.add(key)
                yield LintFinding(
                    span=option.word.span,
                    summary=f"{key} is no key of {part}; {near[0]} is",
                    happens=f"DeepSpeed ends: {key}: Extra inputs are not permitted (extra_forbidden).",
                    fix=f"Write {near[0]}.",
                )
