"""What servers of language models refuse in their own options: a row for each check.

vLLM 0.12, config/parallel.py, scheduler.py and lora.py, entrypoints/openai/cli_args.py (validate_parsed_serve_args);
SGLang 0.5, srt/server_args.py (check_server_args), in 0.5.23 srt/arg_groups/validation_hook.py and lora_hook.py.
`when` is an expression of gpudoctor.lint.conditions.
"""

from gpudoctor.knowledge.refused_options import rows

_TP, _PP, _DP = "tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size"
_DTYPES = "told(dtype) and dtype not in ('auto', 'half', 'float16', 'bfloat16', 'float', 'float32')"

DEFAULTS: dict[str, dict[str, object]] = {
    "vllm": {_TP: 1, _PP: 1, _DP: 1, "nnodes": 1, "distributed_executor_backend": "", "enable_expert_parallel": False},
    "sglang": {_TP: 1, _PP: 1, _DP: 1, "nnodes": 1, "enable_dp_attention": False},
}
"""Of options that are not told and that a row asks for."""

REFUSED = (
    *rows(
        "vllm",
        ("nnodes > 1 and distributed_executor_backend == 'ray'",
         "nnodes > 1 can only be set when distributed executor backend is mp, uni or external_launcher",
         "Take --nnodes and --node-rank out: Ray's cluster says which nodes there are. Or write"
         " --distributed-executor-backend mp."),
        ("nnodes > 1 and not told(master_addr)",
         "--master-addr is 127.0.0.1 unless it is given: every node waits for itself",
         "Write --master-addr with the address of the node of --node-rank 0."),
        (f"{_DP} == 1 and nnodes > 1 and ({_TP} * {_PP}) % nnodes != 0",
         "the ranks are cut over the nodes in equal parts",
         "Take sizes whose product is a multiple of the nodes."),
        (f"decode_context_parallel_size > 1 and {_TP} % decode_context_parallel_size != 0",
         "tp_size must be divisible by dcp_size", "Take a size that divides --tensor-parallel-size."),
        ("enable_eplb and not enable_expert_parallel", "enable_expert_parallel must be True to use EPLB",
         "Add --enable-expert-parallel."),
        (f"data_parallel_size_local > {_DP}", "data_parallel_size_local must be <= data_parallel_size",
         "Write --data-parallel-size as the engines of all nodes."),
        ("max_num_batched_tokens < max_num_seqs",
         "max_num_batched_tokens must be greater than or equal to max_num_seqs",
         "Raise --max-num-batched-tokens to --max-num-seqs or more."),
        ("no_enable_chunked_prefill and max_num_batched_tokens < max_model_len",
         "max_num_batched_tokens is smaller than max_model_len; this effectively limits the maximum sequence length",
         "Raise --max-num-batched-tokens, or leave chunked prefill on."),
        ("enable_auto_tool_choice and not tool_call_parser and not config",
         "TypeError: Error: --enable-auto-tool-choice requires --tool-call-parser", "Add --tool-call-parser."),
        ("max_cpu_loras < max_loras", "max_cpu_loras must be >= max_loras",
         "Raise --max-cpu-loras to --max-loras or more."),
        ("told(max_loras) and max_loras < 1", "max_loras must be >= 1", "Write --max-loras 1 or more."),
        ("told(distributed_executor_backend) and '.' not in distributed_executor_backend and"
         " distributed_executor_backend not in ('ray', 'mp', 'uni', 'external_launcher')",
         "Unrecognized distributed executor backend. Supported values are 'ray', 'mp', 'uni', 'external_launcher'",
         "Write mp on one node, ray on a Ray cluster."),
        (_DTYPES, "argument --dtype: invalid choice",
         "Write auto, float16 or bfloat16; --quantization fp8 is for weights in 8 bit."),
        ("gpu_memory_utilization > 1", "GPU memory utilization must be less than 1.0",
         "Write a share from 0 to 1, 0.9 for nine tenths."),
    ),
    *rows(
        "sglang",
        (f"nnodes > 1 and ({_TP} * {_PP}) % nnodes != 0", "tp_size must be divisible by number of nodes",
         "Take a --tp (times --pp) that is a multiple of --nnodes."),
        (f"{_DP} > 1 and nnodes > 1 and not enable_dp_attention",
         "multi-node data parallel is not supported unless dp attention!", "Add --enable-dp-attention."),
        (f"enable_dp_attention and {_TP} % {_DP} != 0", "tp_size must be divisible by dp_size",
         "Take a --dp that divides --tp."),
        ("nnodes > 1 and not told(dist_init_addr)",
         "without --dist-init-addr each node waits for the others on its own 127.0.0.1",
         "Write --dist-init-addr HOST:PORT of the node of --node-rank 0 on every node."),
        ("nnodes > 1 and not told(node_rank)", "--node-rank is 0 unless it is given, on every node",
         "Write --node-rank 0 to --nnodes minus 1, each on its node."),
        ("told(max_loras_per_batch) and max_loras_per_batch < 1", "max_loras_per_batch must be positive",
         "Write --max-loras-per-batch 1 or more."),
        ("max_loaded_loras < max_loras_per_batch",
         "max_loaded_loras should be greater than or equal to max_loras_per_batch", "Raise --max-loaded-loras."),
        ("enable_lora and not lora_paths and not (max_lora_rank and lora_target_modules) and not config",
         "When no initial --lora-paths is provided, you need to specify both --max-lora-rank and --lora-target-modules",
         "Add --lora-paths, or both of them."),
        ("disable_cuda_graph_padding and enable_torch_compile",
         "--disable-cuda-graph-padding is incompatible with --enable-torch-compile", "Keep one of the two."),
        (_DTYPES, "argument --dtype: invalid choice", "Write auto, float16 or bfloat16."),
        ("mem_fraction_static >= 1", "mem_fraction_static is a share of the memory", "Write a share, such as 0.85."),
    ),
)  # fmt: skip
