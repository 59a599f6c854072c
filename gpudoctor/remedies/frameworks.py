"""What libraries above torch refuse in words that do not say what to do: Transformers, peft, datasets, Lightning,
DeepSpeed, Megatron, Horovod, verl, wandb."""

from gpudoctor.check import command
from gpudoctor.remedy import Remedy

CUDA_OF_TORCH = command('python -c "import torch; print(torch.__version__, torch.version.cuda)"')

REMEDIES = (
    Remedy(
        "tokenizer-class-unknown",
        words=r"Tokenizer class (?P<name>\w+) does not exist or is not currently imported",
        fix=(
            "The model's tokenizer_config.json names {name}, which the installed transformers does not offer: take a "
            "newer transformers, with sentencepiece or tiktoken where it needs one of them; a class of the model's own "
            "comes with trust_remote_code=True, and LLaMATokenizer of early files is spelt LlamaTokenizer."
        ),
        kind="dependency-mismatch",
        source="transformers/models/auto/tokenization_auto.py (from_pretrained)",
        sample="ValueError: Tokenizer class Qwen2TokenizerFast does not exist or is not currently imported.",
        counter="ValueError: Tokenizer class is missing",
    ),
    Remedy(
        "auto-class-unfit",
        words=r"Unrecognized configuration class [^\n]{1,300}? for this kind of AutoModel: (?P<auto>\w+)",
        fix="{auto} has no class for this kind of model: load it by the class that the model's card names "
        "(AutoModelForImageTextToText for images and text, AutoModelForSeq2SeqLM for T5 and its like, AutoModel for "
        "encoders), or by a newer transformers, which may have learned it; a model with code of its own wants "
        "trust_remote_code=True.",
        kind="config",
        blame="program",
        source="transformers/models/auto/auto_factory.py (from_pretrained)",
        sample=(
            "ValueError: Unrecognized configuration class <class "
            "'transformers.models.t5.configuration_t5.T5Config'> for this kind of AutoModel: AutoModelForCausalLM."
        ),
        counter="ValueError: Unrecognized model in /w/m.",
    ),
    Remedy(
        "folder-without-model",
        words=(
            r"(?P<path>[^\s:]+) does not appear to have a file named (?P<file>[\w.-]+?)\.?(?:\s|$)",
            r"Error no file named (?P<file>[\w.-]+)[^\n]{0,200} found in directory (?P<path>\S+?)\.?(?:\s|$)",
        ),
        fix=(
            "{path} holds no {file}: give the folder (or name) of a whole model. Adapters (adapter_config.json) "
            "are loaded over their base model (PeftModel.from_pretrained), shards of DeepSpeed or FSDP are put "
            "together first (zero_to_fp32.py, accelerate merge-weights), and a Trainer's output keeps its weights "
            "in checkpoint-N."
        ),
        kind="file-missing",
        blame="user",
        source="transformers/utils/hub.py (cached_files); modeling_utils.py",
        sample=(
            "OSError: /w/out/ckpt does not appear to have a file named config.json.",
            "OSError: Error no file named pytorch_model.bin, model.safetensors found in directory /w/m.",
        ),
        counter="OSError: /w/out is not a local folder and is not a valid model identifier",
    ),
    Remedy(
        "no-chat-template",
        words=r"tokenizer\.chat_template is not set",
        fix=(
            "This tokenizer has no chat template, as those of base models: load that of the model's -Instruct or "
            "-chat release, set tokenizer.chat_template (vLLM: --chat-template FILE), or train on plain text."
        ),
        kind="config",
        blame="program",
        source="transformers/tokenization_utils_base.py (get_chat_template)",
        sample=(
            "ValueError: Cannot use chat template functions because tokenizer.chat_template is not set and no "
            "template argument was passed!"
        ),
        counter="ValueError: the chat template is empty",
    ),
    Remedy(
        "chat-roles",
        words=r"[Cc]onversation roles must alternate|System role not supported",
        fix=(
            "The model's chat template takes user and assistant by turns, and no system turn or one at the head: "
            "put the system text before the first user's, join turns of one role that follow each other, and let "
            "each conversation begin with user; or set a chat_template that takes yours."
        ),
        kind="data",
        source="chat templates of Llama 2, Mistral and Gemma (tokenizer_config.json: raise_exception)",
        sample="TemplateError: Conversation roles must alternate user/assistant/user/assistant/...",
        counter="TemplateError: unknown role",
    ),
    Remedy(
        "quantized-without-adapters",
        words=r"cannot perform fine-tuning on purely quantized models",
        fix=(
            "Weights in 4 or 8 bits are not trained themselves: put adapters over them before the Trainer is made "
            "(prepare_model_for_kbit_training, then get_peft_model with a LoraConfig), or load the model without "
            "quantization."
        ),
        kind="argument",
        source="transformers/trainer.py (__init__)",
        sample=(
            "ValueError: You cannot perform fine-tuning on purely quantized models. Please attach trainable "
            "adapters on top"
        ),
        counter="ValueError: You cannot train a model on CPU",
    ),
    Remedy(
        "moved-after-dispatch",
        words=r"can't move a model that has some modules offloaded",
        fix=(
            "device_map has placed the model already, and a part did not fit the GPU: take .to() and .cuda() away, "
            "and device_map too where a Trainer or several processes place it. What does not fit wants 4 bits, a "
            "smaller model or more GPUs."
        ),
        kind="argument",
        source="accelerate/big_modeling.py (dispatch_model)",
        sample="RuntimeError: You can't move a model that has some modules offloaded to cpu or disk.",
        counter="RuntimeError: You can't move a tensor",
    ),
    Remedy(
        "no-flash-for-model",
        words=r"(?P<model>\w+) does not support Flash Attention 2(?:\.0)? yet",
        fix=(
            "transformers has no flash attention for {model}: load it with attn_implementation='sdpa' (or "
            "'eager'), or by a newer transformers."
        ),
        kind="config",
        blame="program",
        source="transformers/modeling_utils.py (_check_and_enable_flash_attn_2)",
        sample="ValueError: GPTBigCodeForCausalLM does not support Flash Attention 2.0 yet.",
        counter="ImportError: FlashAttention2 has been toggled on",
    ),
    Remedy(
        "no-gpu-for-half",
        words=r"(?:Mixed precision training with AMP|fp16 mixed precision)[^\n]{0,240}"
        r"(?:can only be used on CUDA|requires a GPU)",
        fix=(
            "torch sees no GPU there (or is a build without CUDA): see why, or take fp16 and bf16 out to train on "
            "the CPU."
        ),
        commands=(CUDA_OF_TORCH, command("nvidia-smi")),
        kind="no-device",
        source="transformers/training_args.py (__post_init__); accelerate/accelerator.py",
        sample="ValueError: fp16 mixed precision requires a GPU (not 'mps').",
        counter="ValueError: fp16 is on",
    ),
    Remedy(
        "adapter-of-block",
        words=r"Target module (?P<name>\w+)[\s\S]{0,2000}? is not supported\. Currently, only the following modules",
        fix=(
            "target_modules names {name}, over which peft puts no adapter: name the linear layers inside of it "
            "(q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj, down_proj), or write target_modules='all-linear'."
        ),
        kind="argument",
        source="peft/tuners/lora/model.py (_create_new_module)",
        sample=(
            "ValueError: Target module LlamaDecoderLayer is not supported. Currently, only the following modules "
            "are supported: `torch.nn.Linear`."
        ),
        counter="ValueError: Target modules ['q_proj'] not found in the base model.",
    ),
    Remedy(
        "split-without-data",
        words=r"Instruction \"(?P<split>[^\"]+)\" corresponds to no data",
        fix=(
            "The data set has no examples in {split}: its files were not found or are empty. Look at data_files, "
            "folder and pattern as that node sees them, and have it made anew (download_mode='force_redownload') "
            "where files came later."
        ),
        kind="data",
        source="datasets/arrow_reader.py (read)",
        sample='ValueError: Instruction "train" corresponds to no data!',
        counter="ValueError: Instruction train",
    ),
    Remedy(
        "other-splits",
        words=(r"^\[\{'expected': SplitInfo", r"Checksums didn't match for dataset source files"),
        fix=(
            "What was fetched is not what the data set's card says: fetch it anew (download_mode='force_redownload'); "
            "where the set was changed since, load_dataset(..., verification_mode='no_checks')."
        ),
        kind="data",
        source="datasets/utils/info_utils.py (verify_splits, verify_checksums)",
        sample="NonMatchingSplitsSizesError: [{'expected': SplitInfo(name='train', num_bytes=81, num_examples=2)}]",
        counter="ValueError: SplitInfo",
    ),
    Remedy(
        "logged-twice",
        words=r"You called `self\.log\((?P<name>[^,`]+), \.\.\.\)` twice in `(?P<hook>\w+)` with different arguments",
        fix=(
            "Log {name} with the same arguments at each place in {hook} (on_epoch, sync_dist, prog_bar, ...), once "
            "only, or under two names."
        ),
        kind="argument",
        source="lightning/pytorch/trainer/connectors/logger_connector/result.py (log)",
        sample="MisconfigurationException: You called `self.log(val/x, ...)` twice in `validation_step` with different "
        "arguments. This is not allowed",
        counter="MisconfigurationException: You called `self.log` outside of a step",
    ),
    Remedy(
        "metric-not-logged",
        words=(
            r"Early stopping conditioned on metric `(?P<name>[^`]+)` which is not available",
            r"ModelCheckpoint\(monitor='(?P<name>[^']+)'\)` could not find the monitored key",
        ),
        fix=(
            "Nothing has logged {name} by then: self.log('{name}', ...) in validation_step (and let a validation run "
            "before: check_val_every_n_epoch, limit_val_batches), or monitor one of the names that the message lists."
        ),
        kind="config",
        blame="program",
        source="lightning/pytorch/callbacks/early_stopping.py, model_checkpoint.py",
        sample="RuntimeError: Early stopping conditioned on metric `val_loss` which is not available. Pass in",
        counter="RuntimeError: Early stopping is off",
    ),
    Remedy(
        "lightning-after-cuda",
        words=r"can't create new processes if CUDA is already initialized",
        fix=(
            "CUDA was used before Lightning starts its processes: make nothing on the GPU before trainer.fit "
            "(torch.cuda.*, .cuda() or .to('cuda') at the head of the script or in a notebook's cell, whose kernel "
            "wants a restart), or take a strategy that starts scripts (strategy='ddp')."
        ),
        kind="argument",
        source="lightning/fabric/strategies/launchers/multiprocessing.py (_check_bad_cuda_fork)",
        sample=(
            "RuntimeError: Lightning can't create new processes if CUDA is already initialized. Did you manually call"
        ),
        counter="RuntimeError: CUDA is already initialized",
    ),
    Remedy(
        "no-sync-under-zero",
        words=r"no[ _]sync context manager is incompatible with gradient partitioning",
        fix=(
            "The loop calls no_sync() of DeepSpeed's engine, which that refuses since 0.16 where gradients are "
            "parted (ZeRO-2 and ZeRO-3): take newer accelerate and transformers, or python -m pip install "
            "'deepspeed==0.15.4'; in a loop of your own let gradient_accumulation_steps of the configuration count."
        ),
        kind="dependency-mismatch",
        blame="program",
        source="deepspeed/runtime/engine.py (no_sync)",
        sample=(
            "AssertionError: no sync context manager is incompatible with gradient partitioning logic of ZeRO stage 3"
        ),
        counter="AssertionError: no sync",
    ),
    Remedy(
        "both-halves",
        words=r"(?:bfloat16|bf16|fp16) and (?:fp16|bf16) modes cannot be simultaneously enabled",
        fix=(
            'fp16 and bf16 are both enabled in DeepSpeed\'s configuration: let one of them have "enabled": false, '
            'or write "auto" in both and choose by the trainer\'s own option.'
        ),
        kind="config",
        blame="program",
        source="deepspeed/runtime/config.py (DeepSpeedConfig)",
        sample="AssertionError: bfloat16 and fp16 modes cannot be simultaneously enabled",
        counter="AssertionError: fp16 is enabled",
    ),
    Remedy(
        "not-into-parts",
        words=r"^(?P<one>\d+) is not divisible by (?P<other>\d+)$",
        types=("AssertionError",),
        fix=(
            "{one} is to be parted into {other}, and does not go: heads, groups of query attention, hidden size, "
            "layers, vocabulary and number of processes have to be multiples of what parts them (tensor or "
            "pipeline parallel size); the lines of the traceback name which. Take a size that divides {one}."
        ),
        kind="config",
        blame="program",
        source="megatron/core/utils.py (ensure_divisibility); vllm/distributed/utils.py",
        sample="AssertionError: 30 is not divisible by 4",
        counter="AssertionError: the batch 30 is not divisible by 4",
    ),
    Remedy(
        "horovod-unlike",
        words=r"Mismatched (?:\w+ )?(?:tensor shapes|data types|operations|(?:pre|post)scale factors)",
        fix=(
            "One rank hands over another tensor than the others at that place: all must build the same model in "
            "the same order, and call alike. Sizes that differ come of a last batch (drop it), or of classes or "
            "columns that each rank counts in its own part of the data."
        ),
        kind="divergence",
        source="horovod/common/controller.cc (ConstructResponse)",
        sample="HorovodInternalError: Mismatched allreduce tensor shapes: One rank reduced a tensor of shape [8]",
        counter="HorovodInternalError: ncclAllReduce failed: unhandled cuda error",
    ),
    Remedy(
        "extension-left-out",
        words=r"(?P<what>[A-Za-z_][\w.]*) requires cuda extensions",
        fix=(
            "{what} is of a package that was installed without its CUDA extensions: build it from its sources with "
            "them (apex: APEX_CPP_EXT=1 APEX_CUDA_EXT=1 pip install -v --no-build-isolation ., or --cpp_ext --cuda_ext "
            "of older ones; it wants nvcc of torch's CUDA), or take torch's own (torch.optim.AdamW(..., fused=True))."
        ),
        kind="import",
        source="apex/optimizers/fused_adam.py; colossalai/nn/optimizer",
        sample="RuntimeError: apex.optimizers.FusedLAMB requires cuda extensions",
        counter="RuntimeError: requires cuda",
    ),
    Remedy(
        "compiled-part-missing",
        words=r"cannot import name '(?P<part>_C|_ext)' from (?:partially initialized module )?'(?P<package>[\w.]+)'",
        fix=(
            "The compiled part of {package} is not there: it was not built, was built for another Python, or its "
            "source folder is found first (start elsewhere). Build it for this torch (pip install "
            "--no-build-isolation -e . in its folder), or install a wheel that names torch and CUDA."
        ),
        kind="import",
        source="Python's import; torch/utils/cpp_extension.py",
        sample="ImportError: cannot import name '_C' from 'detectron2' (/w/detectron2/__init__.py)",
        counter="ImportError: cannot import name 'Config' from 'detectron2'",
    ),
    Remedy(
        "torch-of-cpu",
        words=r"Tried to instantiate dummy base class (?P<name>\w*(?:CUDA|Cuda|cuda|Stream|Event)\w*)",
        fix=(
            "This torch was built without CUDA, and has no {name}: install the build for it (python -m pip install "
            "torch --index-url https://download.pytorch.org/whl/cu126) in the environment that runs."
        ),
        commands=(CUDA_OF_TORCH,),
        kind="dependency-mismatch",
        source="torch/_utils.py (_dummy_type)",
        sample="RuntimeError: Tried to instantiate dummy base class CUDAGraph",
        counter="RuntimeError: Tried to instantiate dummy base class Foo",
    ),
    Remedy(
        "size-below-zero",
        words=(r"create tensor with negative dimension (?P<size>-\d+)", r"Padding_idx must be within num_embeddings"),
        fix=(
            "A number in the model's configuration is missing or out of place (vocab_size or pad_token_id of -1, "
            "as in early Llama files, or a pad_token_id beyond vocab_size): set it in config.json, take files that "
            "were converted anew, or resize_token_embeddings(len(tokenizer)) after a token was added."
        ),
        kind="config",
        blame="program",
        source="torch aten EmptyTensor.h; torch/nn/modules/sparse.py (Embedding)",
        sample=(
            "RuntimeError: Trying to create tensor with negative dimension -1: [-1, 4096]",
            "AssertionError: Padding_idx must be within num_embeddings",
        ),
        counter="RuntimeError: negative dimensions are not allowed",
    ),
    Remedy(
        "ddp-without-parameters",
        words=r"DistributedDataParallel is not needed when a module doesn't have any parameter",
        fix=(
            "No parameter of that module is trained: use it bare on each rank (a teacher, a frozen encoder), or "
            "unfreeze or add what is to be trained (LoRA) before it is wrapped."
        ),
        kind="argument",
        source="torch/nn/parallel/distributed.py (__init__)",
        sample=(
            "RuntimeError: DistributedDataParallel is not needed when a module doesn't have any parameters that "
            "require a gradient."
        ),
        counter="RuntimeError: DistributedDataParallel device_ids",
    ),
    Remedy(
        "gathered-dtypes",
        words=r"output tensor must have the same type as input tensor",
        fix=(
            "A collective takes one dtype, and its tensors have two: under ZeRO-3 or FSDP parameters of mixed "
            "dtypes (adapters or norms in float32 beside bfloat16, quantised layers). Bring all to one before the "
            "model is wrapped."
        ),
        kind="argument",
        source="torch csrc/distributed/c10d/ProcessGroupNCCL.cpp (_allgather_base)",
        sample="TypeError: output tensor must have the same type as input tensor",
        counter="TypeError: output tensor must be a list",
    ),
    Remedy(
        "fewer-dimensions",
        words=r"Dimension out of range \(expected to be in range of \[[^\]]{1,20}\], but got (?P<dim>-?\d+)\)",
        fix=(
            "The tensor has fewer dimensions than dimension {dim} needs: a batch of one that was squeezed, or one "
            "number where a row was expected. Keep it (squeeze(-1), keepdim=True, unsqueeze(0)), or name one that "
            "is there."
        ),
        kind="shape",
        source="torch c10/core/WrapDimMinimal.cpp",
        sample="IndexError: Dimension out of range (expected to be in range of [-1, 0], but got 1)",
        counter="IndexError: index 4 is out of bounds for dimension 0 with size 4",
    ),
    Remedy(
        "two-visible-lists",
        words=r"Please use the same HIP_VISIBLE_DEVICES or CUDA_VISIBLE_DEVICES",
        fix=(
            "Two variables hide GPUs from the process, and differ: unset HIP_VISIBLE_DEVICES (and "
            "ROCR_VISIBLE_DEVICES) for the job, which a cluster's prolog or an image may set; Ray gives each "
            "worker its own CUDA_VISIBLE_DEVICES."
        ),
        commands=(command("env | grep VISIBLE_DEVICES"),),
        kind="config",
        blame="environment",
        source="verl/single_controller/base/worker.py (_setup_env_cuda_visible_devices)",
        sample=(
            "AssertionError: Please use the same HIP_VISIBLE_DEVICES or CUDA_VISIBLE_DEVICES, inconsistant values "
            "found: 0,1 and 0."
        ),
        counter="AssertionError: HIP_VISIBLE_DEVICES is empty",
    ),
    Remedy(
        "wandb-not-yours",
        words=r"you do not have permission to access the requested resource",
        fix=(
            "The key's account may not write there: correct entity and project (WANDB_ENTITY, WANDB_PROJECT), or "
            "log in by one that may (WANDB_API_KEY)."
        ),
        kind="permission",
        blame="user",
        source="wandb/errors (CommError of HTTP 403)",
        sample="CommError: It appears that you do not have permission to access the requested resource.",
        counter="CommError: the requested resource is gone",
    ),
    Remedy(
        "clock-is-wrong",
        words=r"RequestTimeTooSkewed",
        fix="The node's clock is wrong, and the service refuses requests by it: set it (chronyc makestep, or restart "
        "systemd-timesyncd), in a container or virtual machine the host's.",
        commands=(command("timedatectl"),),
        kind="config",
        blame="node",
        lines=True,
        source="Amazon S3 API (error codes)",
        sample=(
            "ERROR : Attempt 3/3 failed: RequestTimeTooSkewed: The difference between the request time and the "
            "current time is too large."
        ),
        counter="ERROR : RequestTimeout",
    ),
    Remedy(
        "tab-in-yaml",
        words=r"found character '\\t' that cannot start any token",
        fix="A tab stands in YAML where blanks are wanted: indent by blanks; the message names line and column.",
        kind="config",
        source="PyYAML scanner.py (fetch_more_tokens)",
        sample=r"ScannerError: while scanning for the next token found character '\t' that cannot start any token",
        counter="ScannerError: mapping values are not allowed here",
    ),
)
