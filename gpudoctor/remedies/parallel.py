"""What DataParallel, DistributedDataParallel, FSDP and those that place models over GPUs refuse."""

from gpudoctor.check import command
from gpudoctor.remedy import Remedy

MODULE = "torch/nn/modules/module.py (__getattr__)"
ACCELERATE = "accelerate accelerator.py (prepare_model)"
REMEDIES = (
    Remedy(
        "zero-not-gathered",
        types=("AssertionError",),
        words=r"'status': '(?:NOT_AVAILABLE|INFLIGHT)', 'numel': ",
        fix=(
            "ZeRO-3 has split a parameter (the message is DeepSpeed's summary of it), and it was not there when a "
            "module wanted it: modules were called in another order than in the step before, or some of them on some "
            "ranks only (mixtures of experts, images in some batches, parts called outside of the model's forward). "
            "Take ZeRO stage 2 for this model, name such modules by deepspeed.utils.set_z3_leaf_modules, or gather "
            "what is read by hand (deepspeed.zero.GatheredParameters)."
        ),
        kind="config",
        blame="program",
        source="deepspeed/runtime/zero/partition_parameters.py (ds_summary), partitioned_param_coordinator.py",
        sample="AssertionError: {'id': 12, 'status': 'NOT_AVAILABLE', 'numel': 0, 'ds_numel': 0, 'shape': (0,)}",
        counter="AssertionError: {'id': 12, 'status': 'AVAILABLE', 'numel': 8}",
    ),
    Remedy(
        "fsdp-integers",
        words=r"Cannot flatten integer dtype tensors",
        fix=(
            "FSDP splits floating-point parameters only, and some are integers: weights that were loaded in 8 or 4 "
            "bits. Load the model without quantization; of 4 bits by bitsandbytes it takes those with "
            "bnb_4bit_quant_storage of the dtype that the other parameters have (torch.bfloat16)."
        ),
        kind="config",
        blame="program",
        source="torch/distributed/fsdp/_flat_param.py (_validate_tensors_to_flatten)",
        sample="ValueError: Cannot flatten integer dtype tensors",
        counter="ValueError: Must flatten tensors with uniform dtype but got torch.bfloat16 and torch.float32",
    ),
    Remedy(
        "no-optimizer",
        words=r"zero stage (?P<stage>\d) requires an optimizer",
        fix=(
            "DeepSpeed's stage {stage} shards an optimizer, and this engine got none: pass one to "
            'deepspeed.initialize, or write an "optimizer" into its configuration. A model that is only asked (a '
            "reference or reward model, an evaluation) takes stage 3, or stage 0."
        ),
        kind="config",
        source="DeepSpeed runtime/engine.py (_configure_optimizer, _configure_zero_optimizer)",
        sample="AssertionError: zero stage 2 requires an optimizer",
        counter="AssertionError: zero stage is not set",
    ),
    Remedy(
        "optimizer-elsewhere",
        words=r"Tensors of the same index must be on the same device and the same dtype",
        fix=(
            "The optimizer's state is on another device, or of another dtype, than the parameters: make the optimizer "
            "after the model has its device and dtype, and load its state after that. Under the Trainer with FSDP it "
            "is a fault of transformers, which 4.47 mends."
        ),
        commands=(command("python -m pip show transformers accelerate"),),
        kind="device-ordinal",
        source="torch aten/src/ATen/native/ForeachUtils.h; huggingface/transformers#33413",
        sample="RuntimeError: Tensors of the same index must be on the same device and the same dtype except `step`",
        counter="RuntimeError: Expected all tensors to be on the same device",
    ),
    Remedy(
        "custom-sampler",
        types=("AttributeError",),
        words=r"'(?P<sampler>\w{0,60}Sampler)' object has no attribute '(?P<name>batch_size|drop_last|sampler)'",
        fix=(
            "The framework makes the sampler anew for each rank, and {sampler} has no {name} to do it by: give it that "
            "attribute, or divide the samples by rank in it and switch the framework's own off (Lightning: "
            "Trainer(use_distributed_sampler=False), before 2.0 replace_sampler_ddp=False; accelerate: "
            "use_seedable_sampler and split_batches as they were)."
        ),
        kind="argument",
        source="Lightning fabric/utilities/data.py, trainer/connectors/data_connector.py",
        sample="AttributeError: 'ConcatBatchSampler' object has no attribute 'batch_size'",
        counter="AttributeError: 'Batch' object has no attribute 'batch_size'",
    ),
    Remedy(
        "sharded-of-whole",
        words=r"sharded_state_dict`{0,2} can only be used when parameters are flatten and sharded",
        fix=(
            "A sharded state is asked of a model that FSDP has not sharded (one rank, NO_SHARD, or "
            "use_orig_params of another release): ask for a full one, StateDictType.FULL_STATE_DICT, or shard it."
        ),
        kind="checkpoint",
        source="torch distributed/fsdp/_state_dict_utils.py (_sharded_post_state_dict_hook)",
        sample="RuntimeError: ``sharded_state_dict`` can only be used when parameters are flatten and sharded.",
        counter="RuntimeError: sharded_state_dict is not found",
    ),
    Remedy(
        "ddp-ready-twice",
        words=r"Expected to mark a variable ready only once",
        fix=(
            "Reentrant checkpointing and DDP do not go together: pass use_reentrant=False to checkpoint (Transformers: "
            "gradient_checkpointing_kwargs={{'use_reentrant': False}}), or DDP(static_graph=True) where each step uses "
            "the same parameters; use no parameter outside of forward, and none in two forwards."
        ),
        kind="argument",
        source="torch csrc/distributed/c10d/reducer.cpp (checkAndRaiseMarkedTwiceError)",
        sample="RuntimeError: Expected to mark a variable ready only once. This error is caused by one of",
        counter="RuntimeError: Expected to have finished reduction in the prior iteration",
    ),
    Remedy(
        "mmcv-wrapper",
        words=r"'MM\w{0,40}DataParallel' object has no attribute '(?P<name>_\w{1,80})'",
        fix=(
            "mmcv's wrapper knows torch's own only up to the release that it was written for, and this torch is "
            "another: install the mmcv (or mmengine) that names this torch in its list, or the torch that your mmcv "
            "names."
        ),
        commands=(command("python -m pip list | grep -iE '^(torch|mmcv|mmengine)'"),),
        kind="dependency-mismatch",
        source=MODULE + "; mmcv parallel/distributed.py (_run_ddp_forward)",
        sample="AttributeError: 'MMDistributedDataParallel' object has no attribute '_use_replicated_tensor_module'",
        counter="AttributeError: 'MMDataset' object has no attribute '_metainfo'",
    ),
    Remedy(
        "wrapped-model",
        words=(
            r"'(?P<wrapper>(?:Distributed)?DataParallel|FullyShardedDataParallel|DeepSpeedEngine)' object has no "
            r"attribute '(?P<name>\w{1,80})'",
        ),
        types=("AttributeError", "ModuleAttributeError"),
        fix=(
            "{wrapper} wraps the model, which is under .module: write model.module.{name}, or unwrap it "
            "once (accelerator.unwrap_model), or keep the bare model for what is no forward."
        ),
        kind="argument",
        source=MODULE + "; the wrappers keep the model as .module",
        sample=(
            "AttributeError: 'DistributedDataParallel' object has no attribute 'encode'",
            "torch.nn.modules.module.ModuleAttributeError: 'DataParallel' object has no attribute 'config'",
        ),
        counter="AttributeError: 'Encoder' object has no attribute 'config'",
    ),
    Remedy(
        "gpu-not-seen",
        words=(r"^Invalid device id$", r"^You requested gpu: \[[\d, ]*\]$"),
        fix=(
            "A GPU is named that the program does not see. It counts those that it sees from 0: with "
            "CUDA_VISIBLE_DEVICES=2,5 they are 0 and 1 (device_ids=[0, 1], devices=[0, 1], cuda:1), and it sees "
            "torch.cuda.device_count() of them."
        ),
        commands=(command("gpudoctor devices"),),
        kind="device-ordinal",
        source="torch/cuda/__init__.py (get_device_properties); lightning fabric/utilities/device_parser.py",
        sample=(
            "AssertionError: Invalid device id",
            "MisconfigurationException: You requested gpu: [2, 5]",
        ),
        counter="RuntimeError: Invalid device string: 'gpu:0'",
    ),
    Remedy(
        "gathered-sizes",
        words=(r"[Gg]ather got an input of invalid size", r"input \d+ has invalid size: got "),
        fix=(
            "DataParallel joins the outputs of all GPUs, and those of the last batch, or of unequal samples, are of "
            "another size: drop_last=True in the DataLoader, pad to one length over the whole batch, or "
            "DistributedDataParallel, which joins nothing."
        ),
        kind="data",
        source="torch csrc/cuda/comm.cpp (gather) up to 1.8; nn/parallel/comm.py",
        sample="RuntimeError: Gather got an input of invalid size: got [2, 30], but expected [2, 32]",
        counter="RuntimeError: The size of tensor a (30) must match the size of tensor b (32)",
    ),
    Remedy(
        "fsdp-dtypes",
        words=r"(?:Must flatten tensors with|`FlatParameter` requires) uniform (?:`dtype`|dtype)",
        fix=(
            "FSDP puts the parameters of a unit into one tensor, which has one dtype: bring the model to one before it "
            "is wrapped (model.to(torch.bfloat16); adapters and norms too; pure_bf16 or its like in a framework), or "
            "wrap the parts apart by the auto_wrap_policy, or use FSDP2 (fully_shard), which mixes."
        ),
        kind="argument",
        source="torch/distributed/fsdp/_flat_param.py (_validate_tensors_to_flatten)",
        sample=(
            "ValueError: Must flatten tensors with uniform dtype but got torch.float16 and torch.float32",
            "ValueError: `FlatParameter` requires uniform dtype but got torch.float16 and torch.float32",
        ),
        counter="ValueError: Must flatten tensors on the same device but got both cpu and cuda:0",
    ),
    Remedy(
        "fsdp-frozen",
        words=r"(?:Must flatten tensors with|`FlatParameter` requires) uniform `requires_grad`",
        fix=(
            "Frozen and trained parameters lie in one unit of FSDP: use_orig_params=True (accelerate: "
            "fsdp_use_orig_params), or an auto_wrap_policy that wraps frozen and trained parts apart."
        ),
        kind="argument",
        source="torch/distributed/fsdp/_flat_param.py (_validate_tensors_to_flatten)",
        sample="ValueError: Must flatten tensors with uniform `requires_grad` when `use_orig_params=False`",
        counter="ValueError: Must flatten tensors with uniform dtype but got torch.float16 and torch.float32",
    ),
    Remedy(
        "quantized-place",
        words=r"You can't train a model that has been loaded in [^\n]{1,40} precision (?:on|with) ",
        fix=(
            "Load the quantized model whole onto the device of its rank: device_map={{'': "
            "int(os.environ['LOCAL_RANK'])}}, and no 'auto' where several processes train; spread over the GPUs of one "
            "process it trains only with adapters and a newer accelerate."
        ),
        kind="device-ordinal",
        source=ACCELERATE,
        sample=(
            "ValueError: You can't train a model that has been loaded in 8-bit precision on a different device than "
            "the one you're training on.",
            "ValueError: You can't train a model that has been loaded in 8-bit or 4-bit precision with CPU or disk "
            "offload. ",
        ),
        counter="ValueError: You can't train a model that has been loaded with `device_map='auto'` in any distributed",
    ),
    Remedy(
        "spread-and-distributed",
        words=r"loaded with `device_map='auto'` in any distributed mode",
        fix=(
            "device_map='auto' spreads one model over all GPUs of a process: take it out where several processes "
            "train, or start one process (--num_processes=1, python in place of torchrun)."
        ),
        kind="argument",
        source=ACCELERATE,
        sample="ValueError: You can't train a model that has been loaded with `device_map='auto'` in any distributed "
        "mode. Please rerun your script specifying `--num_processes=1`",
        counter="ValueError: device_map 'auto' needs accelerate",
    ),
    Remedy(
        "meta-copy",
        words=r"Cannot copy out of meta tensor; no data!",
        fix=(
            "The weights were never loaded: give from_pretrained no device_map or low_cpu_mem_usage beside DeepSpeed "
            "ZeRO-3 or FSDP, or make the module with to_empty() and load its state then."
        ),
        kind="argument",
        source="torch aten native/TensorConversions.cpp, nn/modules/module.py (_apply)",
        sample="NotImplementedError: Cannot copy out of meta tensor; no data! Please use torch.nn.Module.to_empty()",
        counter="NotImplementedError: Could not run 'aten::view' with arguments from the 'Meta' backend",
    ),
    Remedy(
        "spawned-at-import",
        words=r"An attempt has been made to start a new process before the",
        fix=(
            "Spawned processes and DataLoader workers import the script again: put what it does below "
            "if __name__ == '__main__'."
        ),
        kind="argument",
        source="Python multiprocessing/spawn.py (_check_not_importing_main)",
        sample="RuntimeError: An attempt has been made to start a new process before the",
        counter="RuntimeError: context has already been set",
    ),
    Remedy(
        "no-process-group",
        words=r"Default process group (?:has not been|is not) initialized",
        fix=(
            "Call init_process_group (or build the Accelerator or Trainer) before that line, in every process; a "
            "program that is started by python alone has no group: start it by torchrun."
        ),
        kind="argument",
        source="torch/distributed/distributed_c10d.py (_get_default_group)",
        sample=(
            "ValueError: Default process group has not been initialized, please make sure to call init_process_group.",
            "AssertionError: Default process group is not initialized",
        ),
        counter="ValueError: trying to initialize the default process group twice!",
    ),
    Remedy(
        "no-inf-checks",
        words=r"No inf checks were recorded for this optimizer",
        fix=(
            "No parameter of that optimizer got a gradient before scaler.step: build the optimizer from the "
            "wrapped model's parameters, call backward on scaler.scale(loss), and let what is trained be in float32."
        ),
        kind="argument",
        source="torch/amp/grad_scaler.py (step)",
        sample="AssertionError: No inf checks were recorded for this optimizer.",
        counter="AssertionError: unscale_() has already been called on this optimizer",
    ),
    Remedy(
        "unscale-half",
        words=r"Attempting to unscale FP16 gradients",
        fix=(
            "GradScaler wants weights in float32, and trained ones are float16: load the model without "
            "torch_dtype=torch.float16, or cast the trained parameters (adapters) to float32, or train in bfloat16 "
            "without a scaler."
        ),
        kind="argument",
        source="torch/amp/grad_scaler.py (_unscale_grads_)",
        sample="ValueError: Attempting to unscale FP16 gradients.",
        counter="RuntimeError: unscale_() has already been called",
    ),
)
