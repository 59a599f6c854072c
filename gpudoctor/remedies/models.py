"""What frameworks refuse of models, batches and numbers of processes."""

from gpudoctor.check import command
from gpudoctor.remedy import Remedy

REMEDIES = (
    Remedy(
        "no-rows-left",
        words=r"Invalid key: \d+ is out of bounds for size 0",
        fix=(
            "The data set has no rows left. Under a Trainer that mostly means that none of its columns has a name that "
            "the model's forward takes, and all were dropped: name the columns as forward does (input_ids, labels), or "
            "set remove_unused_columns=False; else a filter, split or file before it left nothing (print len)."
        ),
        kind="data",
        source="datasets/formatting/formatting.py (_check_valid_index_key); transformers/trainer.py "
        "(_remove_unused_columns)",
        sample="IndexError: Invalid key: 31 is out of bounds for size 0",
        counter="IndexError: Invalid key: 31 is out of bounds for size 20",
    ),
    Remedy(
        "folder-or-hub-name",
        words=r"Can't load (?P<what>(?:the )?[a-z][a-z ]{2,40}?)(?: (?:for|of))? '(?P<name>[^'\n]{1,200})'\. If you",
        fix=(
            "{name} gives no {what}: where it is a folder (from where the job was started), that lacks the files, as "
            "a checkpoint does that was saved without them: save them beside it (tokenizer.save_pretrained, "
            "processor.save_pretrained), or name the base model for the {what}. Where it is a name on the Hub: compare "
            "its spelling, log in where it is gated, and fetch it before the job where the node has no network."
        ),
        kind="file-missing",
        blame="user",
        source="transformers/tokenization_utils_base.py, configuration_utils.py, image_processing_base.py",
        sample="OSError: Can't load tokenizer for './out/final'. If you were trying to load it from "
        "'https://huggingface.co/models', make sure you don't have a local directory with the same name.",
        counter="OSError: /w/out is not a local folder and is not a valid model identifier",
    ),
    Remedy(
        "half-a-dynamic-module",
        words=r"module 'transformers_modules\.(?P<module>[\w.-]{1,200})' has no attribute '(?P<name>\w{1,80})'",
        types=("AttributeError",),
        fix=(
            "{name} is of the model's own code, which transformers copies into a cache (HF_MODULES_CACHE, else "
            "~/.cache/huggingface/modules/transformers_modules) and imports from there: ranks that do so at once find "
            "each other's file half written. Remove that folder, load tokenizer and model once in one process "
            "(from_pretrained(..., trust_remote_code=True)) before the ranks start, and start again; on several nodes "
            "once on each, or with a cache that they share."
        ),
        kind="import",
        source="transformers/dynamic_module_utils.py (get_cached_module_file, get_class_in_module)",
        sample="AttributeError: module 'transformers_modules.qwen.tokenization_qwen' has no attribute 'QWenTokenizer'",
        counter="AttributeError: module 'transformers' has no attribute 'QWenTokenizer'",
    ),
    Remedy(
        "deepspeed-batch-of-one",
        words=r"train_batch_size is not equal to micro_batch_per_gpu \* gradient_acc_step \* world_size\s?"
        r"(?P<total>\d+) != (?P<micro>\d+) \* (?P<steps>\d+) \* (?P<world>1)(?!\d)",
        fix=(
            "DeepSpeed counts one process. Where more were started it was asked too early: call "
            "deepspeed.init_distributed() (of a Trainer: make TrainingArguments) before the configuration is read or a "
            "model is loaded under ZeRO-3. Where one is right, make the three fit: {total} is not {micro} x {steps}; "
            "leave gradient_accumulation_steps or train_batch_size out of the configuration, and it is computed."
        ),
        kind="config",
        source="deepspeed/runtime/config.py (_batch_assertion: dist.get_world_size() where a group is made, else 1)",
        sample="AssertionError: Check batch related parameters. train_batch_size is not equal to micro_batch_per_gpu * "
        "gradient_acc_step * world_size 256 != 4 * 8 * 1",
        counter="AssertionError: Check batch related parameters. train_batch_size is not equal to micro_batch_per_gpu "
        "* gradient_acc_step * world_size 32 != 2 * 4 * 2",
    ),
    Remedy(
        "deepspeed-batch",
        words=r"train_batch_size is not equal to micro_batch_per_gpu \* gradient_acc_step \* world_size\s?"
        r"(?P<total>\d+) != (?P<micro>\d+) \* (?P<steps>\d+) \* (?P<world>\d+)",
        fix=(
            "{total} is not {micro} x {steps} x {world} (samples of a GPU, steps, processes): make train_batch_size a "
            "multiple of {micro} x {world}, or leave one of the three out of DeepSpeed's configuration (under a "
            'Trainer: "auto"), and it is computed.'
        ),
        kind="config",
        source="deepspeed/runtime/config.py (_batch_assertion)",
        sample="AssertionError: Check batch related parameters. train_batch_size is not equal to micro_batch_per_gpu * "
        "gradient_acc_step * world_size 256 != 1 * 85 * 3",
        counter="AssertionError: Train batch size: 0 has to be greater than 0",
    ),
    Remedy(
        "deepspeed-trainer",
        words=r"correct the following DeepSpeed config values that mismatch TrainingArguments values",
        fix=(
            'The lines below it name the two values of each: write "auto" in DeepSpeed\'s configuration for what the '
            "TrainingArguments say."
        ),
        kind="config",
        source="transformers integrations/deepspeed.py (trainer_config_finalize)",
        sample="ValueError: Please correct the following DeepSpeed config values that mismatch TrainingArguments "
        "values:",
        counter="ValueError: DeepSpeed config file not found",
    ),
    Remedy(
        "parallel-product",
        words=r"world[ _]size \((?P<world>\d+)\) is not divisible by (?P<what>[^\n(]{1,80}?)\s?"
        r"\((?P<size>\d+|encoder_model_size=[^)\n]{1,60})\)",
        fix=(
            "The {world} processes must be a multiple of tensor x pipeline x context parallel size ({size}): start so "
            "many, or take smaller parallel sizes."
        ),
        kind="config",
        source="Megatron-LM megatron/training/arguments.py (validate_args), core/parallel_state.py",
        sample="AssertionError: world size (6) is not divisible by total_model_size (4)",
        counter="AssertionError: hidden size is not divisible by heads",
    ),
    Remedy(
        "tensor-parallel-heads",
        words=r"(?:attention heads|num_attention_heads)\b[^\n]{0,40}?(?P<heads>\d+)\)?[^\n]{0,20} divisible by "
        r"(?:the )?tensor parallel size \(?(?P<size>\d+)",
        fix=(
            "The model's {heads} attention heads are shared out over the GPUs: take a tensor parallel size that "
            "divides them, and in place of {size} use pipeline parallel size for the GPUs that are left."
        ),
        kind="config",
        source="vllm config/model.py (verify_with_parallel_config)",
        sample="ValueError: Total number of attention heads (28) must be divisible by tensor parallel size (8).",
        counter="ValueError: hidden_size must be divisible by num_heads",
    ),
    Remedy(
        "no-bf16",
        words=r"Your setup doesn't support bf16|[Bb]float16 is only supported on GPUs with compute capability",
        fix=(
            "This GPU, or this torch, has no bfloat16: train with fp16 (dtype half), on a GPU since "
            "Ampere, or a newer torch."
        ),
        kind="config",
        source="transformers training_args.py; vllm platforms/cuda.py (check_if_supports_dtype)",
        sample=(
            "ValueError: Your setup doesn't support bf16/gpu. You need torch>=1.10, using Ampere GPU with cuda>=11.0"
        ),
        counter="ValueError: At most one of fp16 and bf16 can be True",
    ),
    Remedy(
        "fewer-gpus",
        words=r"You requested gpu: \[[\d, ]*\]\s*But your machine only has: \[(?P<have>[\d, ]*)\]",
        fix=(
            "The process sees only GPUs [{have}], counted from 0 (with CUDA_VISIBLE_DEVICES=2,5 they are 0 and 1): ask "
            "for no more (devices), widen CUDA_VISIBLE_DEVICES or the container's GPUs [SLURM: ask for them per "
            "node, by --gpus-per-node or --gres=gpu:N, since --gpus-per-task and --gpu-bind show each its own]."
        ),
        commands=(command("gpudoctor devices"),),
        kind="device-ordinal",
        blame="user",
        source="lightning fabric/utilities/device_parser.py (_sanitize_gpu_ids)",
        sample="lightning.fabric.utilities.exceptions.MisconfigurationException: You requested gpu: [0, 1, 2]\n But "
        "your machine only has: [0]",
        counter="MisconfigurationException: No supported gpu backend found!",
    ),
    Remedy(
        "model-config-key",
        words=r"^'(?P<name>num_\w{1,30}_heads|num_hidden_layers|hidden_size|intermediate_size|rope_\w{1,20}"
        r"|vocab_size|"
        r"model_type|architectures|max_position_embeddings)'$",
        types=("KeyError",),
        fix=(
            "The model's config.json has no {name}: it is of another family than this program reads, of an older "
            "format, or another file; take the recipe for this model, or write the value that its makers give into it."
        ),
        kind="config",
        source="Transformers' configuration files; torchtune training/checkpointing",
        sample="KeyError: 'num_key_value_heads'",
        counter="KeyError: 'num_workers'",
    ),
    Remedy(
        "unknown-architecture",
        words=(
            r"model type `?(?P<name>[\w.-]{1,60})`? but Transformers does not recognize this architecture",
            r"Transformers does not recognize this architecture",
        ),
        fix=(
            "This model is younger than the installed Transformers: install a newer one, from source for "
            "one of this week."
        ),
        commands=(command("python -m pip install --upgrade transformers"),),
        kind="dependency-mismatch",
        source="transformers models/auto/configuration_auto.py (from_pretrained)",
        sample="ValueError: The checkpoint you are trying to load has model type `qwen9` but Transformers does not "
        "recognize this architecture.",
        counter="ValueError: Unrecognized model in ./m. Should have a `model_type` key in its config.json",
    ),
    Remedy(
        "no-flash-attention",
        words=(
            r"FlashAttention2 has been toggled on, but it cannot be used",
            r"[Ff]lash ?[Aa]ttention(?: 2)? only supports? Ampere GPUs or newer",
        ),
        fix=(
            "Take torch's own attention (attn_implementation='sdpa'), or install flash-attn for this torch on a GPU "
            "since Ampere (pip install flash-attn --no-build-isolation)."
        ),
        kind="dependency-mismatch",
        source="transformers modeling_utils.py (_flash_attn_2_can_dispatch); flash-attention csrc/flash_api.cpp",
        sample=(
            "ImportError: FlashAttention2 has been toggled on, but it cannot be used due to the following error: the "
            "package flash_attn seems to be not installed.",
            "RuntimeError: FlashAttention only supports Ampere GPUs or newer.",
        ),
        counter="ValueError: unknown attn_implementation 'flash'",
    ),
    Remedy(
        "flash-dtype",
        words=r"[Ff]lash ?[Aa]ttention only supports? fp16 and bf16 data type",
        fix=(
            "Flash attention computes in half precision only: load the model with torch_dtype=torch.bfloat16, or run "
            "it under autocast; a norm or an adapter in float32 may turn queries back."
        ),
        kind="argument",
        source="flash-attention csrc/flash_attn/flash_api.cpp (mha_fwd)",
        sample="RuntimeError: FlashAttention only support fp16 and bf16 data type",
        counter="RuntimeError: FlashAttention only supports head dimension at most 256",
    ),
    Remedy(
        "remote-code",
        words=r"requires you to execute the (?:configuration|modeling|tokenizer|dataset)[^\n]{0,40} (?:file|script)|"
        r"contains custom code which must be executed",
        fix=(
            "The model or data set brings its own code: read it, and where you trust it pass trust_remote_code=True "
            "(--trust_remote_code; to load_dataset in code of others: HF_DATASETS_TRUST_REMOTE_CODE=1), or take a "
            "transformers that has the model built in."
        ),
        kind="config",
        source="transformers dynamic_module_utils.py (resolve_trust_remote_code)",
        sample=(
            "ValueError: The repository for acme/m contains custom code which must be executed to correctly load the "
            "model."
        ),
        counter="ValueError: trust_remote_code must be a bool",
    ),
    Remedy(
        "long-sequence",
        words=r"max(?:imum)? (?:seq(?:uence)?|model) len(?:gth)?\b[^\n]{0,160}(?:KV cache|max_model_len)|"
        r"max seq len \((?P<wanted>\d+)\)",
        fix=(
            "One sequence of the model's full length does not fit into the KV cache: lower max_model_len to what is "
            "used, raise gpu_memory_utilization, take more GPUs (tensor_parallel_size) or a KV cache in fp8."
        ),
        kind="gpu-memory",
        source="vllm v1/core/kv_cache_utils.py (_check_enough_kv_cache_memory), worker/worker.py",
        sample="ValueError: The model's max seq len (4096) is larger than the maximum number of tokens that can be "
        "stored in KV cache (1024).",
        counter="ValueError: max_model_len must be positive",
    ),
)
