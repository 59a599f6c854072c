"""Hugging Face accelerate: one `accelerate launch` a node, over torchrun's static rendezvous.

--num_processes is the total of all machines. --multi_gpu is what selects the launcher with several processes:
without it, and with one GPU a node, every node trains alone (accelerate 1.15, commands/launch.py and
commands/utils.py; measured). Hyphens are taken beside underscores; abbreviations are not.
"""

from gpudoctor.launch import words
from gpudoctor.launch.plan import CannotEmit, Emission, EnvVariable, LaunchPlan, NodePlan, PasteBlock
from gpudoctor.launcher.grammar import Grammar
from gpudoctor.launcher.told import ToldStart, number
from gpudoctor.launcher.traits import Form, LauncherTraits
from gpudoctor.lint.model import LintLaunch

OPTIONS = """
    config_file,--config-file= quiet,-q cpu multi_gpu tpu use_mps_device!accelerate:0.16
    mixed_precision= num_processes= num_machines=
    num_cpu_threads_per_process= enable_cpu_affinity dynamo_backend= dynamo_mode= dynamo_use_fullgraph
    dynamo_use_dynamic dynamo_use_regional_compilation use_deepspeed use_fsdp use_parallelism_config use_megatron_lm
    use_xpu!accelerate:1.13 ipex!accelerate:1.10
    gpu_ids= same_network machine_rank= main_process_ip= main_process_port= tee,-t= log_dir= role=
    rdzv_backend= rdzv_conf= max_restarts= monitor_interval= module,-m no_python tpu_cluster no_tpu_cluster
    tpu_use_sudo vm= env= main_training_function= downcast_bf16 deepspeed_config_file= zero_stage=
    offload_optimizer_device= offload_param_device= offload_optimizer_nvme_path= offload_param_nvme_path=
    gradient_accumulation_steps= gradient_clipping= zero3_init_flag= zero3_save_16bit_model= deepspeed_hostfile=
    deepspeed_exclusion_filter= deepspeed_inclusion_filter= deepspeed_multinode_launcher=
    deepspeed_moe_layer_cls_names= fsdp_version= fsdp_offload_params= fsdp_min_num_params= fsdp_sharding_strategy=
    fsdp_reshard_after_forward= fsdp_auto_wrap_policy= fsdp_transformer_layer_cls_to_wrap= fsdp_backward_prefetch=
    fsdp_backward_prefetch_policy=!accelerate:1.0 fsdp_state_dict_type= fsdp_forward_prefetch= fsdp_use_orig_params=
    fsdp_cpu_ram_efficient_loading= fsdp_sync_module_states= fsdp_activation_checkpointing=
    fsdp_activation_checkpointing_offload= megatron_lm_tp_degree= megatron_lm_use_custom_fsdp=
    megatron_lm_no_load_optim= megatron_lm_eod_mask_loss= megatron_lm_overlap_cpu_optimizer_d2h_h2d=
    megatron_lm_no_save_optim= megatron_lm_optimizer_cpu_offload= megatron_lm_use_precision_aware_optimizer=
    megatron_lm_decoder_last_pipeline_num_layers= megatron_lm_pp_degree= megatron_lm_num_micro_batches=
    megatron_lm_sequence_parallelism= megatron_lm_recompute_activations= megatron_lm_use_distributed_optimizer=
    megatron_lm_gradient_clipping= megatron_lm_recompute_granularity= megatron_lm_recompute_method=
    megatron_lm_recompute_num_layers= megatron_lm_attention_backend= megatron_lm_expert_model_parallel_size=
    megatron_lm_context_parallel_size= megatron_lm_attention_dropout= megatron_lm_hidden_dropout=
    megatron_lm_attention_softmax_in_fp32= megatron_lm_expert_tensor_parallel_size=
    megatron_lm_calculate_per_token_loss= megatron_lm_use_rotary_position_embeddings= fp8_backend=
    fp8_use_autocast_during_eval fp8_margin= fp8_interval= fp8_format= fp8_amax_history_len= fp8_amax_compute_algo=
    fp8_override_linear_precision= fp8_opt_level= fp8_enable_fsdp_float8_all_gather= fp8_pad_inner_dim=
    aws_access_key_id= aws_secret_access_key= debug mpirun_hostfile= mpirun_ccl=!accelerate:1.13
    parallelism_config_dp_replicate_size=
    parallelism_config_dp_shard_size= parallelism_config_tp_size= parallelism_config_cp_size=
    parallelism_config_cp_backend= parallelism_config_cp_comm_strategy= parallelism_config_sp_size=
    parallelism_config_sp_backend= parallelism_config_sp_seq_length= parallelism_config_sp_seq_length_is_variable=
    parallelism_config_sp_attn_implementation= help,-h
"""

PRECISIONS = {"fp32": "no", "fp16": "fp16", "bf16": "bf16"}
STRATEGIES = {"": "--multi_gpu", "ddp": "--multi_gpu", "fsdp": "--use_fsdp"}


def write(plan: LaunchPlan) -> Emission:
    """What to paste. Raises `CannotEmit`."""
    if plan.strategy not in STRATEGIES:
        hint = "; --framework deepspeed starts it" if plan.strategy.startswith("deepspeed") else ""
        raise CannotEmit(f"--strategy {plan.strategy}: accelerate is started with ddp or fsdp here{hint}")
    return Emission(blocks=tuple(_block(plan, node) for node in plan.nodes), notes=_notes(plan))


def program(plan: LaunchPlan) -> list[str]:
    """`accelerate launch`, or its module where the interpreter is named by a path."""
    if plan.python in ("python", "python3"):
        return ["accelerate", "launch"]
    return [plan.python, "-m", "accelerate.commands.launch"]


def _block(plan: LaunchPlan, node: NodePlan) -> PasteBlock:
    total, several = plan.world_size, len(plan.nodes) > 1
    command = program(plan)
    if total > 1:
        command += [STRATEGIES[plan.strategy]]
    elif plan.accelerator == "cpu":
        command += ["--cpu"]
    command += ["--num_machines", str(len(plan.nodes)), "--num_processes", str(total)]
    if several:
        command += [
            *("--machine_rank", str(node.rank)),
            *("--main_process_ip", plan.master_address, "--main_process_port", str(plan.master_port)),
            *("--rdzv_backend", "static", "--same_network"),
        ]
    else:
        command += ["--main_process_port", str(plan.master_port)]
    command += ["--mixed_precision", PRECISIONS.get(plan.precision, "no"), "--dynamo_backend", "no"]
    module = ["--module", *plan.program[1:]] if plan.program[0] == "-m" else list(plan.program)
    # Accelerator() looks for a GPU otherwise.
    on_cpu = (EnvVariable("ACCELERATE_USE_CPU", "true"),) if plan.accelerator == "cpu" else ()
    comments = [words.comment(f"--num_processes is the total: {len(plan.nodes)} x {node.processes}.")]
    if total > 1 and not plan.strategy.startswith("fsdp"):
        comments.append(
            words.comment(
                "--multi_gpu: the launcher with one process a rank, on CPU too. Without it, and with one GPU a node, "
                "every node trains alone."
            )
        )
    if node.rank == 0 and several:
        comments += words.head_reasons(plan)
    return words.node_block(plan, node, [*command, *module], comments, *on_cpu)


def _notes(plan: LaunchPlan) -> tuple[str, ...]:
    notes = [
        "What stands here beats the file of `accelerate config`; but a gpu_ids in that file replaces "
        "CUDA_VISIBLE_DEVICES, and --config_file names another file."
    ]
    if not plan.precision:
        notes.append("--mixed_precision no: fp32, for nothing else was asked for (--precision bf16).")
    return tuple(notes)


def told(launch: LintLaunch) -> ToldStart:
    """Options only: what its configuration file says stands in no command line."""
    nodes, world = number(launch.text("num-machines")), number(launch.text("num-processes"))
    backend = launch.text("rdzv-backend") or "static"
    return ToldStart(
        fewest_nodes=nodes,
        most_nodes=nodes,
        world_size=world,
        ranks_here=world // nodes if world and nodes else None,
        node_rank=number(launch.text("machine-rank")) if backend == "static" else None,
        address=(launch.text("main-process-ip") or "").strip(),
        port=number(launch.text("main-process-port")) or 0,
        backend=backend,
    )


LAUNCHER = LauncherTraits(
    name="accelerate",
    forms=(
        Form(
            launcher="accelerate",
            programs=("accelerate launch", "accelerate-launch"),
            modules=("accelerate.commands.launch", "accelerate.commands.accelerate_cli launch"),
            grammar=Grammar(OPTIONS, both_dashes=True, prefixes=False),
            all_known=True,
            newest="accelerate 1.15",
        ),
    ),
    a_node=True,
    sets_ranks=True,
    trains="accelerate",
    own_names={
        "nnodes": "num-machines",
        "node-rank": "machine-rank",
        "master-addr": "main-process-ip",
        "master-port": "main-process-port",
    },
    underscores=True,
    total_option="num-processes",
    decisive=("num-machines", "num-processes", "machine-rank", "main-process-ip", "main-process-port"),
    unmistakable=(
        *("num-processes", "num-machines", "machine-rank", "main-process-ip", "main-process-port", "multi-gpu"),
    ),
    runs_as="accelerate",
    told=told,
    kept_numbers="num-processes num-machines machine-rank main-process-port mixed-precision "
    "num-cpu-threads-per-process gpu-ids zero-stage gradient-accumulation-steps dynamo-backend",
    kept_hosts="main-process-ip",
    package="accelerate",
    write=write,
    fixed="accelerate's --num_processes is one number",
    even="accelerate divides its total evenly",
    any_strategy=True,
)
