"""What is said of checkpoints and files of weights that cannot be read, or are not what was wanted."""

from gpudoctor.check import command
from gpudoctor.remedy import Remedy

ENTRIES = (
    r"optimizer(?:_states?|_state_dict)?|state_dict|model_state(?:_dict)?|lr_schedulers|global_step|grad_scaler|"
    r"rng_state"
)
LFS = (command("git lfs install"), command("git lfs pull"))
REMEDIES = (
    Remedy(
        "no-folder-to-save",
        words=r"Parent directory (?P<folder>[^\n]{1,300}?) does not exist",
        fix=(
            "torch.save makes no folders, and {folder} is not there: os.makedirs('{folder}', exist_ok=True) before it, "
            "or correct the path of what is saved (a relative one starts at the folder that the job was started in)."
        ),
        kind="file-missing",
        blame="program",
        source="torch caffe2/serialize/inline_container.cc",
        sample="RuntimeError: Parent directory ckpts/run7 does not exist.",
        counter="RuntimeError: File ckpts/run7 cannot be opened.",
    ),
    Remedy(
        "no-such-entry",
        words=rf"^'(?P<name>{ENTRIES})'$",
        types=("KeyError",),
        fix=(
            "Where a checkpoint is read there, it has no entry '{name}': it was written without (published weights "
            "hold no state of an optimizer), or by another program. Load only its weights and begin the training anew, "
            "or resume from one that the training itself saved; print its keys."
        ),
        kind="checkpoint",
        source="Python's KeyError at what torch.load gave; torch/optim/optimizer.py; Lightning's and others' entries",
        sample=("KeyError: 'optimizer'", "KeyError: 'state_dict'"),
        counter=("KeyError: 'image_id'", "ValueError: 'optimizer'"),
    ),
    Remedy(
        "no-optimizer-state",
        words=r"^'param_groups'$",
        types=("KeyError",),
        fix=(
            "What was given to optimizer.load_state_dict is no optimizer's state. Where the file holds weights only "
            "(published, or made for evaluation), load it by the option that takes weights alone (--load_from, "
            "--finetune, --pretrained) and not by the one that resumes. Where the training saved it itself, look what "
            "the saving code put under that entry (the model's or a scheduler's state, arguments in another order)."
        ),
        kind="checkpoint",
        source="torch/optim/optimizer.py (load_state_dict)",
        sample="KeyError: 'param_groups'",
        counter="KeyError: 'params'",
    ),
    Remedy(
        "cut-archive",
        words=(
            r"PytorchStreamReader failed (?:reading zip archive|reading file|locating file)",
            r"unexpected EOF, expected \d+ more bytes\. The file might be corrupted",
            r"failed finding central directory",
        ),
        fix=(
            "The file is cut off or damaged: its job ended while it wrote, the disk was full, or the copy or download "
            "was broken off. Take the checkpoint before it, or fetch it again; save under another name and rename it, "
            "so that none is seen half. gpudoctor checkpoint FILE tells what is left."
        ),
        kind="checkpoint",
        source="torch caffe2/serialize/inline_container.cc, csrc/serialization.cpp (doRead)",
        sample=(
            "RuntimeError: PytorchStreamReader failed reading zip archive: failed finding central directory",
            "RuntimeError: unexpected EOF, expected 713 more bytes. The file might be corrupted.",
        ),
        counter="RuntimeError: PytorchStreamWriter failed writing file data/3: file write failed",
    ),
    Remedy(
        "no-checkpoint",
        words=r"invalid load key, '(?P<key>[^'\n]{1,8})'",
        fix=(
            "The file begins with '{key}' and is no checkpoint: '<' is a web page that was downloaded in its place, "
            "'v' a pointer of git-lfs, '{{' a JSON file. Look at its first bytes and its size, and fetch it again."
        ),
        commands=LFS,
        kind="checkpoint",
        source="Python Modules/_pickle.c (load)",
        sample="_pickle.UnpicklingError: invalid load key, 'v'.",
        counter="_pickle.UnpicklingError: pickle data was truncated",
    ),
    Remedy(
        "no-safetensors",
        words=(
            r"deserializing header: (?P<what>HeaderTooLarge|HeaderTooSmall|InvalidHeader\w*|MetadataIncompleteBuffer|"
            r"incomplete metadata)",
            r"(?P<what>HeaderTooLarge|MetadataIncompleteBuffer)",
        ),
        fix=(
            "The file is a pointer of git-lfs in place of the weights, or was not fetched to its end: fetch it again. "
            "A size of some hundred bytes is a pointer's; MetadataIncompleteBuffer means that bytes are missing."
        ),
        commands=LFS,
        kind="checkpoint",
        source="safetensors tensor.rs (SafeTensorError)",
        sample="safetensors_rust.SafetensorError: Error while deserializing header: HeaderTooLarge",
        counter="safetensors_rust.SafetensorError: File does not contain tensor lm_head.weight",
    ),
    Remedy(
        "weights-only",
        words=r"Weights only load failed",
        fix=(
            "Since torch 2.6 torch.load reads tensors and known classes only: allow the named class "
            "(torch.serialization.add_safe_globals), or weights_only=False for a file that you trust."
        ),
        kind="checkpoint",
        source="torch/serialization.py (_get_wo_message)",
        sample="_pickle.UnpicklingError: Weights only load failed. This file can still be loaded, to do so you have",
        counter="_pickle.UnpicklingError: pickle data was truncated",
    ),
    Remedy(
        "device-of-checkpoint",
        words=r"Attempting to deserialize object on CUDA device (?P<device>\d+) but torch\.cuda\.device_count\(\) is",
        fix=(
            "The tensors were saved on GPU {device}, which this process does not have: torch.load(..., "
            "map_location='cpu'), or f'cuda:{{local_rank}}', in every rank."
        ),
        kind="device-ordinal",
        source="torch/serialization.py (_validate_device)",
        sample="RuntimeError: Attempting to deserialize object on CUDA device 3 but torch.cuda.device_count() is 2. "
        "Please use torch.load with map_location",
        counter=(
            "RuntimeError: Attempting to deserialize object on a CUDA device but torch.cuda.is_available() is False."
        ),
    ),
    Remedy(
        "zero-world",
        words=(
            r"checkpoint being loaded used a DP world size of (?P<then>\d+) but the current world size is "
            r"(?P<now>\d+)"
        ),
        fix=(
            "ZeRO's optimizer state is cut into {then} parts, and {now} processes run: resume with {then}, or make a "
            "universal checkpoint of it (ds_to_universal.py; load_universal), or load the module only "
            "(load_optimizer_states=False)."
        ),
        kind="checkpoint",
        source="deepspeed/runtime/zero/stage_1_and_2.py (_load_legacy_checkpoint)",
        sample="deepspeed.runtime.zero.utils.ZeRORuntimeException: The checkpoint being loaded used a DP world size of "
        "16 but the current world size is 8.",
        counter="ZeRORuntimeException: gradients are not partitioned",
    ),
)
