"""What frameworks refuse of how a training was started, put together or ended."""

from gpudoctor.command import command
from gpudoctor.remedy import Remedy

REMEDIES = (
    Remedy(
        "parted-elsewhere",
        words=r"^'weight' must be 2-D|(?:model|checkpoint),? (?:is|the shape in current model is) torch\.Size\(\[0\]\)",
        fix=(
            "A parameter is empty because DeepSpeed's ZeRO-3 has parted it, and this process uses it outside of the "
            "engine. Start by a launcher also on one GPU (torchrun, deepspeed, accelerate launch; LLaMA-Factory: "
            "FORCE_TORCHRUN=1), or take the DeepSpeed configuration out; where code reads weights by hand, do it "
            "inside of deepspeed.zero.GatheredParameters."
        ),
        kind="config",
        source="deepspeed runtime/zero/partition_parameters.py; torch aten native/Embedding.cpp",
        sample=(
            "RuntimeError: 'weight' must be 2-D",
            "RuntimeError: size mismatch for wte.weight: copying a param with shape torch.Size([50257, 768]) from "
            "checkpoint, the shape in current model is torch.Size([0]).",
        ),
        counter="RuntimeError: input must be 2-D",
    ),
    Remedy(
        "no-loop-hook",
        words=r"No `(?P<hook>\w{1,40})\(\)` method defined to run `Trainer\.(?P<loop>\w{1,20})`",
        fix=(
            "Trainer.{loop} is called, and neither the module nor the data module has {hook}(): write it, or leave "
            "that call out. Where the log says before that fit stopped (max_steps, max_epochs), the training is done "
            "and nothing of it failed: raise these to train longer."
        ),
        kind="config",
        blame="program",
        source="Lightning trainer/configuration_validator.py (__verify_eval_loop_configuration)",
        sample="MisconfigurationException: No `test_dataloader()` method defined to run `Trainer.test`.",
        counter="MisconfigurationException: No training loop",
    ),
    Remedy(
        "interactive-strategy",
        words=r"is not compatible with an interactive environment",
        fix=(
            "In a notebook take a strategy that starts no scripts (strategy='ddp_notebook', or one GPU), or run the "
            "same code as a script (python train.py, torchrun)."
        ),
        kind="config",
        source="Lightning trainer/connectors/accelerator_connector.py (_lazy_init_strategy)",
        sample="MisconfigurationException: `Trainer(strategy='ddp')` is not compatible with an interactive "
        "environment.",
        counter="MisconfigurationException: the environment is interactive",
    ),
    Remedy(
        "text-in-batch",
        words=r"too many dimensions 'str'|Perhaps your features \(`(?P<column>\w{1,60})` in this case\) have excessive",
        fix=(
            "A column of text is left in what becomes the batch, and padding does not help: take it out before "
            "(remove_columns=dataset.column_names in map, remove_unused_columns=True), give labels as numbers, and "
            "call the others as the collator knows them (input_ids, attention_mask, labels). Where an older release "
            "of the trainer did so by itself, that one (or a newer) does."
        ),
        kind="data",
        source="transformers tokenization_utils_base.py (convert_to_tensors); torch csrc/utils/tensor_new.cpp",
        sample=(
            "ValueError: too many dimensions 'str'",
            "ValueError: Unable to create tensor, you should probably activate truncation and/or padding with "
            "'padding=True' 'truncation=True' to have batched tensors with the same length. Perhaps your features "
            "(`text` in this case) have excessive nesting (inputs type `list` where type `int` is expected).",
        ),
        counter="ValueError: too many dimensions 'float'",
    ),
    Remedy(
        "split-batches",
        words=r"requires that the batch size \((?P<batch>\d+)\) to be a round multiple of the number of processes "
        r"\((?P<ranks>\d+)\)",
        lines=True,
        fix=(
            "The batch of {batch} is divided among {ranks} processes, and does not go: give the DataLoader a batch "
            "size that {ranks} divides, start another number of processes, or leave split_batches=True out (each "
            "process then has the whole batch size)."
        ),
        kind="config",
        source="accelerate data_loader.py (prepare_data_loader)",
        sample=": Using `split_batches=True` requires that the batch size (8) to be a round multiple of the number of "
        "processes (6).ValueError",
        counter="the batch size must be a multiple of the number of processes",
    ),
    Remedy(
        "eight-bit-kernel",
        words=r"^Error (?P<what>[\w ,]{3,80}) at line \d{1,5} in file \S{0,200}/csrc/(?:ops|pythonInterface)\.\w{1,4}",
        lines=True,
        fix=(
            "bitsandbytes' kernel was refused ({what}): take an optimizer of torch in place of its 8-bit one "
            "(optim adamw_torch, adamw_torch_fused), or another release of it (pip install -U bitsandbytes); an empty "
            "tensor, as ZeRO-3 and FSDP make of what another rank holds, is what it does not take."
        ),
        kind="argument",
        blame="environment",
        source="bitsandbytes csrc/ops.cuh (CUDA_CHECK_RETURN)",
        sample="Error invalid configuration argument at line 119 in file /src/csrc/ops.cu",
        counter="Error at line 119 in file /src/csrc/ops.cu",
    ),
    Remedy(
        "repository-name",
        words=r"Repo id must (?:be in the form|use alphanumeric|have)[^\n]{0,160}: '(?P<name>[^'\n]{1,300})'",
        fix=(
            "'{name}' is taken for a name on the hub because it is no folder where the job runs, or lacks the file "
            "that is looked for in it (config.json, adapter_config.json, tokenizer files): look into it from that "
            "node (in a container it has to be mounted; a relative path starts where the job does). Where it is "
            "there, as a base model that is only asked for its card when the training saves, what was saved before "
            "is whole, and a newer release of the framework (or of peft) lets it pass."
        ),
        kind="file-missing",
        blame="user",
        source="huggingface_hub utils/_validators.py (validate_repo_id)",
        sample="HFValidationError: Repo id must be in the form 'repo_name' or 'namespace/repo_name': "
        "'/models/gemma-9b'. Use `repo_type` argument if needed.",
        counter="HFValidationError: Repo id must be a string",
    ),
    Remedy(
        "table-for-data-set",
        types=("KeyError",),
        words=r"^(?P<row>\d{1,9})$",
        fix=(
            "{row} is the number of a row that was looked up as a column's name, or is no index any more: a pandas "
            "table was given where a data set is wanted. Make one of it (datasets.Dataset.from_pandas(table)), or "
            "read rows by .iloc in its __getitem__; after filtering or splitting reset_index(drop=True)."
        ),
        kind="data",
        source="torch utils/data/_utils/fetch.py; pandas core/indexes/base.py (get_loc)",
        sample="KeyError: 5417",
        counter="KeyError: '5417'",
    ),
    Remedy(
        "ninja",
        words=r"Ninja is required to load C\+\+ extensions",
        fix="Install ninja into the environment that runs, and see that its bin folder is in PATH.",
        commands=(command("python -m pip install ninja"),),
        kind="import",
        source="torch utils/cpp_extension.py (verify_ninja_availability)",
        sample="RuntimeError: Ninja is required to load C++ extensions",
        counter="RuntimeError: ninja has failed",
    ),
    Remedy(
        "list-for-folder",
        words=r"(?:unable to execute|command|"
        r"No such file or directory:) '(?P<path>(?:/[^:'\n]{1,200}:){1,8}/[^:'\n]{1,200})"
        r"/bin/(?:nvcc|gcc|g\+\+|cc|hipcc)'",
        lines=True,
        fix=(
            "A variable that names one folder holds a list: {path}. Set it (CUDA_HOME, or CC and CXX) to the one "
            "toolkit that torch was built with; lists belong into PATH and LD_LIBRARY_PATH."
        ),
        commands=(command("env | grep -E '^(CUDA_HOME|CUDA_PATH|CC|CXX)='"),),
        kind="config",
        source="torch utils/cpp_extension.py (_join_cuda_home)",
        sample="unable to execute '/usr/local/cuda:/usr/local/cuda-11.3/bin/nvcc': No such file or directory",
        counter="unable to execute '/usr/local/cuda-11.3/bin/nvcc': No such file or directory",
    ),
    Remedy(
        "python-header-missing",
        words=r"fatal error: (?:[\w./-]{0,80}/)?(?P<file>Python|pyconfig)\.h: No such file",
        lines=True,
        fix=(
            "The compiler does not find Python's own header {file}.h: install python3-dev of this Python's version "
            "(Debian, Ubuntu; python3-devel on others; conda's Python has it). What is raised behind it only follows."
        ),
        commands=(command("sudo apt-get install --yes python3-dev"),),
        kind="import",
        source="GCC libcpp/files.c (open_file_failed)",
        sample="/usr/include/python3.10/pyconfig.h:3:12: fatal error: x86_64-linux-gnu/python3.10/pyconfig.h: No such "
        "file or directory",
        counter="fatal error: pythonrun.h: No such file or directory",
    ),
    Remedy(
        "header-missing",
        words=r"fatal error: (?P<header>[\w./-]{1,120}\.h(?:pp)?): No such file",
        lines=True,
        fix=(
            "The compiler does not find {header}: CUDA's headers (cuda.h, cuda_runtime.h, cusparse.h) are in the "
            "toolkit's include folder (CUDA_HOME, or C_INCLUDE_PATH and CPLUS_INCLUDE_PATH), cuDNN's and NCCL's in "
            "their -dev packages, torch's below its own include folder. What is raised behind it only follows."
        ),
        kind="dependency-mismatch",
        source="GCC libcpp/files.c (open_file_failed)",
        sample="ext.cpp:1:10: fatal error: cudnn.h: No such file or directory",
        counter="fatal error: no input files",
    ),
    Remedy(
        "slurm-not-configured",
        words=r"Could not establish a configuration source|fetch_config: DNS SRV lookup failed",
        lines=True,
        fix=(
            "SLURM's commands find no cluster here: no slurm.conf (SLURM_CONF, /etc/slurm) and no controller by DNS. "
            "Submit from a login node of the cluster, or point SLURM_CONF at its file; in a container mount "
            "/etc/slurm and munge's socket. Without a cluster start the script itself: bash SCRIPT."
        ),
        commands=(command("scontrol ping"),),
        kind="config",
        blame="environment",
        source="slurm src/common/fetch_config.c, src/api/init_msg.c",
        sample="sbatch: fatal: Could not establish a configuration source",
        counter="sbatch: fatal: Unable to process configuration file",
    ),
    Remedy(
        "image-without-room",
        words=r"Write failed because No space left on device|Failed to write to output filesystem",
        lines=True,
        fix=(
            "The squashed image does not fit where it is written: /run is memory, and pyxis and enroot write there by "
            "default. Have runtime_path of pyxis (plugstack.conf) and ENROOT_DATA_PATH, ENROOT_CACHE_PATH and "
            "ENROOT_TEMP_PATH (enroot.conf) point to a file system with room, or import it once elsewhere (enroot "
            "import -o IMAGE.sqsh) and give --container-image=/PATH/IMAGE.sqsh."
        ),
        commands=(command("df -h /run /tmp"),),
        kind="disk-full",
        source="squashfs-tools mksquashfs.c; pyxis config.c (runtime_path); enroot.conf",
        sample="slurmstepd: error: pyxis:     Write failed because No space left on device",
        counter="pyxis: Write failed",
    ),
    Remedy(
        "no-valid-samples",
        words=r"Cannot find valid samples",
        fix=(
            "Every record was left out while it was prepared: its fields are not those that the data set's description "
            "names. Hold dataset_info.json (columns, formatting, tags) against one record of the file, leave out "
            "columns that are empty or not there, and delete the prepared cache before the next start."
        ),
        kind="config",
        source="LLaMA-Factory data/loader.py (_get_preprocessed_dataset)",
        sample="RuntimeError: Cannot find valid samples, check `data/README.md` for the data format.",
        counter="RuntimeError: Cannot find samples",
    ),
    Remedy(
        "indexed-prefix",
        words=(
            r"Dataset does not exist: (?P<path>\S{1,300})",
            r"One or both of the \.idx and \.bin files cannot be found at the path prefix (?P<path>\S{1,300})",
        ),
        lines=True,
        fix=(
            "Megatron wants the prefix that its preprocess_data wrote, without .bin and .idx: mostly with the field's "
            "name behind it, as {path}_text_document. List what is there (ls -l {path}*), as the node sees it."
        ),
        kind="file-missing",
        blame="user",
        source="Megatron-LM megatron/data/indexed_dataset.py, core/datasets/indexed_dataset.py; "
        "tools/preprocess_data.py",
        sample=(
            "Dataset does not exist: /lustre/corpora/owt/part-03",
            "AssertionError: One or both of the .idx and .bin files cannot be found at the path prefix /data/owt",
        ),
        counter="the dataset does not exist",
    ),
    Remedy(
        "windows-line-ends",
        words=r"\^M: bad interpreter|\\r'?: (?:command not found|No such file)|\r: (?:bad interpreter|"
        r"command not found)|\bcontains DOS line breaks\b",
        lines=True,
        fix=(
            "The script has Windows' line ends, and the carriage return is taken for a part of the name: take them out "
            "(sed -i 's/\\r$//' SCRIPT, or dos2unix), and have the editor or git write Unix's (core.autocrlf input)."
        ),
        kind="config",
        source="bash execute_cmd.c (execute_shell_script); slurm src/sbatch/opt.c",
        sample=(
            "-bash: /var/spool/PBS/jobs/4.SC: /bin/bash^M: bad interpreter: No such file or directory",
            "sbatch: error: Batch script contains DOS line breaks (\\r\\n)",
        ),
        counter="-bash: ./run: /bin/zsh: bad interpreter: No such file or directory",
    ),
    Remedy(
        "program-not-in-path",
        words=r"execve\(\): (?P<program>[^\s:/]{1,100}): No such file or directory",
        lines=True,
        fix=(
            "{program} is no command on that node: give its whole path as the node or container sees it, load the "
            "module or environment that has it in the script (before srun), or take an image in which it is."
        ),
        kind="file-missing",
        blame="user",
        source="slurm src/slurmd/slurmstepd/task.c (exec_task)",
        sample="slurmstepd: error: execve(): all_reduce_perf: No such file or directory",
        counter="slurmstepd: error: execve(): /opt/a/b: Permission denied",
    ),
    Remedy(
        "hub-without-image",
        words=r"registry-1\.docker\.io/v2/library/(?P<image>[\w.-]{1,120})/manifests/\S{1,80} "
        r"returned error code: 40[134]",
        lines=True,
        fix=(
            "Docker Hub has no public image {image}: an image that is only in a docker daemon is made a file first "
            "(enroot import -o {image}.sqsh dockerd://{image}) and given by its path, /PATH/{image}.sqsh; one of "
            "another registry is written REGISTRY#IMAGE:TAG, a user's own USER/IMAGE."
        ),
        kind="image",
        blame="user",
        source="enroot src/docker.sh (docker::_authenticate, _download)",
        sample="[ERROR] URL https://registry-1.docker.io/v2/library/train-go/manifests/latest returned error code: 401 "
        "Unauthorized",
        counter="[ERROR] URL https://registry-1.docker.io/v2/acme/train/manifests/latest returned error code: 401",
    ),
    Remedy(
        "no-libuv",
        words=r"use_libuv was requested but PyTorch was buil[dt] without libuv",
        fix=(
            "torch's Windows builds have no libuv, which its store takes since 2.4: set USE_LIBUV=0 in the environment "
            "(or use_libuv=0 in the init_method's address), take torch 2.3, or run it on Linux (WSL)."
        ),
        commands=(command("export USE_LIBUV=0"),),
        kind="config",
        blame="environment",
        source="torch distributed/rendezvous.py (_create_c10d_store), csrc/distributed/c10d/TCPStore.cpp",
        sample="RuntimeError: use_libuv was requested but PyTorch was build without libuv support",
        counter="RuntimeError: libuv has failed",
    ),
    Remedy(
        "megatron-helpers",
        words=r"cannot import name 'helpers(?:_cpp)?' from '(?P<module>(?:megatron|nemo)[\w.]{0,120})'",
        fix=(
            "The C++ part of {module} is not built: run make in its folder (the one with helpers.cpp and a Makefile) "
            "with the Python of the job, once, and on a file system that all nodes see; it wants g++ and pybind11."
        ),
        kind="import",
        source="Megatron-LM megatron/core/datasets/utils.py (compile_helpers), Makefile",
        sample="ImportError: cannot import name 'helpers' from 'megatron.data' (/w/megatron/data/__init__.py)",
        counter="ImportError: cannot import name 'helpers' from 'models' (/w/models/__init__.py)",
    ),
    Remedy(
        "eight-bit-without-runtime",
        words=r"CUDA Setup failed despite GPU being available",
        fix=(
            "bitsandbytes finds no libcudart: put the folder that holds it into LD_LIBRARY_PATH (find / -name "
            "'libcudart.so*'; conda's is $CONDA_PREFIX/lib), or install a newer one (pip install -U bitsandbytes), "
            "which takes torch's own."
        ),
        commands=(command("python -m pip install --upgrade bitsandbytes"),),
        kind="dependency-mismatch",
        source="bitsandbytes 0.38 cextension.py, cuda_setup/main.py",
        sample="RuntimeError: CUDA Setup failed despite GPU being available. Please run the following command to get "
        "more information:",
        counter="RuntimeError: CUDA setup failed",
    ),
    Remedy(
        "categories-of-others",
        words=r"prediction has category_id=(?P<id>\d{1,6}), which is not available in the dataset",
        fix=(
            "The model predicts more classes than the data set has: set their number (MODEL.ROI_HEADS.NUM_CLASSES, or "
            "MODEL.RETINANET.NUM_CLASSES) to the data set's before it is built, and train its last layers with it."
        ),
        kind="config",
        source="detectron2 evaluation/coco_evaluation.py (_eval_predictions)",
        sample="AssertionError: A prediction has category_id=62, which is not available in the dataset.",
        counter="AssertionError: A prediction has no category",
    ),
    Remedy(
        "metadata-of-others",
        words=r"Attribute '(?P<name>\w{1,60})' in the metadata of '(?P<data>[\w-]{1,100})' "
        r"cannot be set to a different value",
        fix=(
            "{data} is a name that is registered already, with another {name}: register your own data set under a name "
            "of its own, once a process (in a notebook start the kernel again), and name that in DATASETS.TRAIN and "
            "TEST."
        ),
        kind="config",
        blame="program",
        source="detectron2 data/catalog.py (Metadata.__setattr__)",
        sample="AssertionError: Attribute 'thing_classes' in the metadata of 'coco_2017_train' cannot be set to a "
        "different value!",
        counter="AssertionError: Attribute 'a' cannot be set",
    ),
)
