"""What libraries of training and inference say, each in words that only it writes, with the one thing that solves it.

Every string was found in the wheel or the source that `source` names, every release in the first wheel that differs.
"""

from gpudoctor.check import command
from gpudoctor.remedy import Remedy

REMEDIES = (
    Remedy(
        "unknown-processor",
        words=r"Unrecognized (?:image processor|feature extractor|video processor|processing class) in "
        r"(?P<path>\S{1,200}?)\. Should have",
        fix=(
            "The installed transformers knows no processor for {path}: a newer model wants a newer transformers "
            "(python -m pip install --upgrade transformers); where the folder was saved by a training, copy "
            "preprocessor_config.json and the other files of the processor from the base model into it."
        ),
        commands=(command("python -m pip install --upgrade transformers"),),
        kind="dependency-mismatch",
        source="transformers models/auto/image_processing_auto.py, processing_auto.py (from_pretrained)",
        sample="ValueError: Unrecognized image processor in /m/vl. Should have a `image_processor_type` key in its",
        counter="ValueError: Unrecognized model in /m/vl. Should have a `model_type` key in its config.json",
    ),
    Remedy(
        "nothing-to-resume",
        words=r"No valid checkpoint found in output directory \((?P<path>[^)\n]{1,300})\)",
        fix=(
            "{path} holds no folder checkpoint-N: nothing was saved there (save_strategy, save_steps above the steps "
            "that were made), or output_dir is another one in this job. Give the whole path of one "
            "(resume_from_checkpoint='.../checkpoint-500'), or start without it."
        ),
        kind="checkpoint",
        blame="user",
        source="transformers trainer.py (train), trainer_utils.py (get_last_checkpoint)",
        sample="ValueError: No valid checkpoint found in output directory (out/vl)",
        counter="ValueError: Can't find a valid checkpoint at out/vl",
    ),
    Remedy(
        "gated-model",
        words=(
            r"You are trying to access a gated repo\.\s{1,6}Make sure to have access to it at "
            r"(?P<name>\S{1,200}?)\.?\s",
            r"Access to (?:model|dataset) (?P<name>[\w./-]{1,120}) is restricted",
        ),
        fix=(
            "{name} is gated: accept its terms on its page on the hub with an account (some are let in by hand, "
            "later), then give the job a token of that account that may read gated repositories: hf auth login once on "
            "that node, or HF_TOKEN in its environment."
        ),
        kind="permission",
        blame="user",
        source="transformers utils/hub.py (cached_files); huggingface_hub utils/_http.py (GatedRepoError)",
        sample="OSError: You are trying to access a gated repo.\nMake sure to have access to it at "
        "https://huggingface.co/org/model.\n403 Client Error.",
        counter="OSError: model is not a local folder",
    ),
    Remedy(
        "drawn-from-no-numbers",
        words=r"\Aprobability tensor contains either `inf`, `nan` or element < 0",
        fix=(
            "The model gave nan or inf where a token is drawn: load it in bfloat16 or float32 in place of float16, pad "
            "on the left and hand over the attention mask, and look whether its weights are whole (a merge or "
            "quantization that failed, a training that diverged); do_sample=False only hides it."
        ),
        kind="nan",
        source="torch ATen/native/Distributions.cpp (multinomial), transformers generation/utils.py (_sample)",
        sample="RuntimeError: probability tensor contains either `inf`, `nan` or element < 0",
        counter="RuntimeError: Function 'MulBackward0' returned nan values",
    ),
    Remedy(
        "quantized-not-moved",
        words=r"`\.to` is not supported for `(?P<kind>4-bit|8-bit|4-bit` or `8-bit)` bitsandbytes models",
        fix=(
            "A model in 4 or 8 bits stays where it was loaded: take .to() and .cuda() away and choose the place by "
            "device_map={{'': 0}} (of several processes: the local rank). Where accelerate or a pipeline calls it, "
            "give that no device, and take newer accelerate, transformers and bitsandbytes together."
        ),
        kind="argument",
        source="transformers modeling_utils.py (to); accelerate big_modeling.py (dispatch_model)",
        sample="ValueError: `.to` is not supported for `4-bit` or `8-bit` bitsandbytes models. Please use the model as "
        "it is",
        counter="ValueError: `.to` is not supported for HQQ-quantized models.",
    ),
    Remedy(
        "torch-before-dtype",
        words=r"module 'torch' has no attribute '(?P<name>float8_\w{2,16}|uint16|uint32|uint64)'",
        fix=(
            "This torch is older than torch.{name} (float8_e4m3fn and float8_e5m2 came with 2.1, the other kinds of "
            "float8 with 2.2, unsigned integers with 2.3): python -m pip install --upgrade torch with its torchvision, "
            "or an older release of what asks for it."
        ),
        commands=(command('python -c "import torch; print(torch.__version__, torch.version.cuda)"'),),
        kind="dependency-mismatch",
        source="torch c10/core/ScalarType.h of 2.0 to 2.3",
        sample="AttributeError: module 'torch' has no attribute 'float8_e4m3fn'",
        counter="AttributeError: module 'torch' has no attribute 'float9'",
    ),
    Remedy(
        "torch-load-refused",
        words=r"Due to a serious vulnerability issue in `torch\.load`",
        fix=(
            "transformers since 4.52 reads .bin and .pt files only with torch 2.6 or newer: python -m pip install "
            "--upgrade 'torch>=2.6' (torchvision and torchaudio with it), or take the weights in safetensors "
            "(use_safetensors=True, or convert them once), which any torch reads; optimizer.pt and scheduler.pt of a "
            "checkpoint that is resumed are such files too."
        ),
        commands=(command("python -m pip install --upgrade 'torch>=2.6'"),),
        kind="dependency-mismatch",
        source="transformers 4.52 utils/import_utils.py (check_torch_load_is_safe); 4.51 has it not",
        sample="ValueError: Due to a serious vulnerability issue in `torch.load`, even with `weights_only=True`, we "
        "now require users to upgrade torch to at least v2.6 in order to use the function.",
        counter="ValueError: torch.load is not there",
    ),
    Remedy(
        "protobuf-too-old",
        words=r"cannot import name '(?P<name>builder)' from 'google\.protobuf\.internal'",
        fix=(
            "The generated code wants protobuf 3.20 or newer, which has google.protobuf.internal.{name}: python -m pip "
            "install 'protobuf>=3.20,<4' (a newer one where the package that is imported allows it)."
        ),
        commands=(command("python -m pip install 'protobuf>=3.20,<4'"),),
        kind="dependency-mismatch",
        source="protobuf 3.20 internal/builder.py; 3.19.6 has it not",
        sample="ImportError: cannot import name 'builder' from 'google.protobuf.internal' (/v/__init__.py)",
        counter="ImportError: cannot import name 'descriptor' from 'google.protobuf.internal'",
    ),
    Remedy(
        "protobuf-too-new",
        words=r"'MessageFactory' object has no attribute 'GetPrototype'",
        fix=(
            "protobuf 6 has MessageFactory.GetPrototype no more, and what calls it (TensorFlow, onnx, tensorboard) was "
            "built for an older one: python -m pip install 'protobuf<6', or a newer release of that package."
        ),
        commands=(command("python -m pip install 'protobuf~=5.0'"),),
        kind="dependency-mismatch",
        source="protobuf message_factory.py: 5.29.5 has it, 6.30.2 has not",
        sample="AttributeError: 'MessageFactory' object has no attribute 'GetPrototype'",
        counter="AttributeError: 'MessageFactory' object has no attribute 'Get'",
    ),
    Remedy(
        "no-slow-tokenizer",
        words=r"Couldn't instantiate the backend tokenizer from one of",
        fix=(
            "The folder holds no tokenizer.json, and the vocabulary that it has cannot be converted here: python -m "
            "pip install sentencepiece tiktoken protobuf, and start the process (a notebook's kernel) again; where "
            "there is no tokenizer file at all, fetch or copy the model's tokenizer files into it."
        ),
        commands=(command("python -m pip install sentencepiece tiktoken protobuf"),),
        kind="import",
        source="transformers/tokenization_utils_fast.py (__init__)",
        sample="ValueError: Couldn't instantiate the backend tokenizer from one of:",
        counter="ValueError: Couldn't instantiate the tokenizer",
    ),
    Remedy(
        "no-pad-in-config",
        words=r"Cannot handle batch sizes > 1 if no padding token is defined",
        fix=(
            "The model's configuration has no padding token: model.config.pad_token_id = tokenizer.pad_token_id, after "
            "tokenizer.pad_token = tokenizer.eos_token where the tokenizer has none either."
        ),
        kind="argument",
        source="transformers models/*/modeling_*.py (ForSequenceClassification.forward)",
        sample="ValueError: Cannot handle batch sizes > 1 if no padding token is defined.",
        counter="ValueError: Cannot handle batch sizes > 1",
    ),
    Remedy(
        "padding-side-handed",
        words=r"(?P<name>\w{1,80})\._pad\(\) got an unexpected keyword argument 'padding_side'",
        fix=(
            "transformers since 4.45 hands padding_side to _pad, and the code of {name}, which came with the model, is "
            "older: fetch the model's newest files, or python -m pip install 'transformers<4.45'; in a copy of that "
            "code add `padding_side=None` to the signature of _pad."
        ),
        commands=(command("python -m pip install 'transformers<4.45'"),),
        kind="dependency-mismatch",
        source="transformers tokenization_utils_base.py (pad): 4.45.2 hands it, 4.44.2 does not",
        sample="TypeError: ChatGLMTokenizer._pad() got an unexpected keyword argument 'padding_side'",
        counter="TypeError: pad() got an unexpected keyword argument 'side'",
    ),
    Remedy(
        "tokenizer-asked-early",
        types=("AttributeError",),
        words=r"'(?P<name>\w{1,60}Tokenizer)' object has no attribute "
        r"'(?P<what>tokenizer|sp_tokenizer|sp_model|mergeable_ranks|encoder|vocab)'",
        fix=(
            "transformers since 4.34 asks for the vocabulary while a tokenizer is made, and {name}, whose code came "
            "with the model, has no {what} yet: fetch the model's newest files, or python -m pip install "
            "'transformers<4.34'; in a copy of that code call super().__init__ behind the line that sets self.{what}."
        ),
        commands=(command("python -m pip install 'transformers<4.34'"),),
        kind="dependency-mismatch",
        source="transformers 4.34 tokenization_utils.py (PreTrainedTokenizer.__init__: _add_tokens asks for the "
        "vocabulary)",
        sample="AttributeError: 'ChatGLMTokenizer' object has no attribute 'sp_tokenizer'",
        counter="AttributeError: 'Trainer' object has no attribute 'tokenizer'",
    ),
    Remedy(
        "extended-tokens-gone",
        words=r"has no attribute '?all_special_tokens_extended",
        fix=(
            "transformers 5 has all_special_tokens_extended no more, and what asks for it (vLLM, SGLang) was made for "
            "transformers 4: python -m pip install 'transformers<5', or a newer release of that."
        ),
        commands=(command("python -m pip install 'transformers<5'"),),
        kind="dependency-mismatch",
        source="transformers tokenization_utils_base.py: 4.57 has it, 5.0 has not",
        sample="AttributeError: Qwen2Tokenizer has no attribute all_special_tokens_extended. Did you mean: 'x'?",
        counter="AttributeError: 'Tokenizer' object has no attribute 'tokens'",
    ),
    Remedy(
        "scaler-with-bfloat16",
        words=r"\"_amp_foreach_non_finite_check_and_unscale_cuda\" not implemented for 'BFloat16'",
        fix=(
            "A GradScaler is used on gradients in bfloat16, which need none: train with bf16=True in place of "
            "fp16=True (accelerate: mixed_precision bf16; Lightning: bf16-mixed), or GradScaler(enabled=False); to "
            "keep fp16, load the weights in float32."
        ),
        kind="argument",
        source="torch aten/src/ATen/native/cuda/AmpKernels.cu",
        sample="RuntimeError: \"_amp_foreach_non_finite_check_and_unscale_cuda\" not implemented for 'BFloat16'",
        counter="RuntimeError: \"_amp_foreach_non_finite_check_and_unscale_cuda\" not implemented for 'Half'",
    ),
    Remedy(
        "no-class-to-wrap",
        words=r"Could not find the transformer layer class(?: (?P<name>[\w.]{1,80}))?(?: to wrap)? in the model",
        fix=(
            "FSDP is told to wrap a class that this model has not: write the name of its repeated block into "
            "fsdp_transformer_layer_cls_to_wrap (LlamaDecoderLayer, Qwen2DecoderLayer, BertLayer, ...; print(model) "
            "shows it, and model._no_split_modules mostly is it)."
        ),
        kind="config",
        source="accelerate utils/dataclasses.py (set_auto_wrap_policy); transformers trainer.py",
        sample="Exception: Could not find the transformer layer class to wrap in the model.",
        counter="Exception: Could not find the layer",
    ),
    Remedy(
        "tensor-and-dtensor",
        words=r"(?P<what>[\w.]{1,80}):? got mixed torch\.Tensor and DTensor",
        fix=(
            "In {what} a plain tensor meets a parameter that FSDP2 or tensor parallelism has parted (a DTensor). Call "
            "the module that was wrapped by fully_shard itself, not one inside of it or its weight (that is gathered "
            "only in its own forward); with tied or frozen weights wrap all that share them together; where it is "
            "meant, make both alike: distribute_tensor for the plain one, or .full_tensor() of the other. An optimizer "
            "or a clipping that makes plain tensors beside DTensors (foreach, 8-bit states) does so too."
        ),
        kind="argument",
        source="torch distributed/tensor/_dispatch.py (try_replicate_spec_for_scalar_tensor)",
        sample="RuntimeError: aten.embedding.default: got mixed torch.Tensor and DTensor, need to convert all "
        "torch.Tensor to DTensor before calling distributed operators!",
        counter="RuntimeError: a Tensor is not a DTensor",
    ),
    Remedy(
        "no-sharding-strategy",
        words=r"Operator (?P<what>[\w.:]{1,80}) does not have a sharding strategy registered",
        fix=(
            "torch does not know how to part {what} over the ranks of a DTensor: take a newer torch, which knows more "
            "of them, or compute that part on the whole tensor (x.full_tensor()) or on this rank's own (x.to_local())."
        ),
        kind="argument",
        source="torch distributed/tensor/_sharding_prop.py (propagate_op_sharding)",
        sample="NotImplementedError: Operator aten.nonzero.default does not have a sharding strategy registered.",
        counter="NotImplementedError: Operator is not there",
    ),
    Remedy(
        "no-checkpoint-metadata",
        types=("FileNotFoundError",),
        words=r"No such file or directory: '(?P<folder>/?[^'\n]{1,300})/\.metadata'",
        fix=(
            "{folder} is no whole checkpoint of torch.distributed.checkpoint: its .metadata is written last, when all "
            "ranks have saved, so that this save was broken off, or the folder is another one (one level above or "
            "below; "
            "FSDP under accelerate keeps it in pytorch_model_fsdp_0 and optimizer_0). Take the checkpoint before it."
        ),
        kind="checkpoint",
        source="torch distributed/checkpoint/filesystem.py (FileSystemReader.read_metadata, FileSystemWriter.finish)",
        sample="FileNotFoundError: [Errno 2] No such file or directory: '/scratch/step-4000/.metadata'",
        counter="FileNotFoundError: [Errno 2] No such file or directory: '/scratch/metadata'",
    ),
    Remedy(
        "python-without-dynamo",
        words=r"Dynamo is not supported on Python (?P<python>3\.\d{2})\+|"
        r"Python (?P<other>3\.\d{2})\+ not yet supported for torch\.compile",
        fix=(
            "This torch compiles for older Pythons only: torch.compile works on Python 3.11 since torch 2.1, on 3.12 "
            "since 2.4, on 3.13 since 2.6. Take a newer torch or an older Python, or run without it "
            "(TORCHDYNAMO_DISABLE=1, torch_compile=False)."
        ),
        commands=(command("export TORCHDYNAMO_DISABLE=1"),),
        kind="dependency-mismatch",
        source="torch _dynamo/eval_frame.py (check_if_dynamo_supported), 2.0 to 2.6; torch's release notes",
        sample=(
            "RuntimeError: Dynamo is not supported on Python 3.12+",
            "RuntimeError: Python 3.11+ not yet supported for torch.compile",
        ),
        counter="RuntimeError: Windows not yet supported for torch.compile",
    ),
    Remedy(
        "engine-without-device",
        words=r"Failed to infer device type, please set the environment variable `VLLM_LOGGING_LEVEL",
        fix=(
            "vLLM found no accelerator: the process sees no GPU (nvidia-smi, CUDA_VISIBLE_DEVICES, the container's "
            "--gpus), NVML does not work there, or torch is a build without CUDA."
        ),
        commands=(
            command("nvidia-smi"),
            command('python -c "import torch; print(torch.__version__, torch.cuda.is_available())"'),
        ),
        kind="no-device",
        source="vllm config (DeviceConfig.__post_init__), platforms/__init__.py (cuda_platform_plugin)",
        sample="RuntimeError: Failed to infer device type, please set the environment variable "
        "`VLLM_LOGGING_LEVEL=DEBUG`",
        counter="RuntimeError: Failed to infer the type",
    ),
    Remedy(
        "more-images-than-allowed",
        words=r"You set (?P<kind>image|audio|video)=(?P<most>\d{1,4}) \(or defaulted to \d{1,4}\) in "
        r"`--limit-mm-per-prompt`, but passed (?P<given>\d{1,5}) |"
        r"At most (?P<allowed>\d{1,4}) (?P<kinds>image|audio|video)\(s\) may be provided in one (?:prompt|request)",
        fix=(
            "vLLM was started for fewer pictures, sounds or films in one request than this one holds: start it with a "
            "higher --limit-mm-per-prompt (such as '{{\"image\": 4}}'; image=4 in older releases), or send fewer."
        ),
        kind="config",
        source="vllm multimodal/registry.py, entrypoints/chat_utils.py",
        sample=(
            "ValueError: You set image=1 (or defaulted to 1) in `--limit-mm-per-prompt`, but passed 2 image items in "
            "the same prompt.",
            "ValueError: At most 1 image(s) may be provided in one prompt.",
        ),
        counter="ValueError: You set image=1",
    ),
    Remedy(
        "adapter-rank-above-limit",
        words=r"LoRA rank (?P<rank>\d{1,5}) is greater than max_lora_rank (?P<most>\d{1,5})",
        fix="Start vLLM with --max-lora-rank {rank} (max_lora_rank={rank} of LLM), or the next size that it offers: "
        "the adapter's r is {rank}, and {most} was allowed.",
        kind="config",
        source="vllm lora/peft_helper.py, worker_manager.py",
        sample="ValueError: LoRA rank 64 is greater than max_lora_rank 16.",
        counter="ValueError: LoRA rank 64 is too high",
    ),
    Remedy(
        "argument-not-serialized",
        words=r"Could not serialize the argument [\s\S]{1,300}? for a task or actor (?P<name>[\w.<>]{1,120})",
        fix=(
            "Ray sends what is given to {name} to another process, and this cannot be pickled (a lock, a socket, a "
            "CUDA handle, a generator, a logger, an open file in it): make it inside of the task or actor, and hand "
            "over what it is made of (paths, settings). ray.util.inspect_serializability(x) names the part."
        ),
        kind="argument",
        source="ray python/ray/_raylet.pyx (prepare_args_internal)",
        sample="TypeError: Could not serialize the argument <unlocked _thread.lock object at 0x7f> for a task or actor "
        "train.fit:",
        counter="TypeError: Could not serialize the arguments",
    ),
)

__all__ = ["REMEDIES"]
