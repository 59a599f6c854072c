"""What is said of packages that do not fit together, of keys and of ways to other machines."""

from gpudoctor.check import command
from gpudoctor.remedy import Remedy

REMEDIES = (
    Remedy(
        "numpy-before-two",
        words=r"numpy\.dtype size changed, may indicate binary incompatibility\. Expected 88 from C header, got 96",
        fix=(
            "That package was built for NumPy 2, and NumPy 1 is installed: python -m pip install --upgrade 'numpy>=2', "
            "or an older release of that package."
        ),
        commands=(command("python -m pip install --upgrade 'numpy>=2'"),),
        kind="dependency-mismatch",
        source="NumPy _core/include/numpy/ndarraytypes.h (PyArray_Descr: 96 bytes in 1.x, 88 in 2.x), Cython's check",
        sample="ValueError: numpy.dtype size changed, may indicate binary incompatibility. Expected 88 from C header, "
        "got 96 from PyObject",
        counter="ValueError: numpy.dtype size changed, may indicate binary incompatibility. Expected 96 from C header, "
        "got 88 from PyObject",
    ),
    Remedy(
        "numpy-two",
        words=(
            r"numpy\.dtype size changed, may indicate binary incompatibility",
            r"_ARRAY_API not found|numpy\.core\.multiarray failed to import",
            r"module that was compiled using NumPy 1\.x cannot be run in",
        ),
        fix=(
            "A package was built for another NumPy than is installed: install that package again, in a release for "
            "NumPy 2, or go back to NumPy 1."
        ),
        commands=(command("python -m pip install 'numpy==1.*'"),),
        kind="dependency-mismatch",
        source="NumPy numpy/_core/code_generators/generate_numpy_api.py, Cython's check of sizes",
        sample=(
            "ValueError: numpy.dtype size changed, may indicate binary incompatibility. Expected 96 from C header, "
            "got 88 from PyObject",
            "AttributeError: _ARRAY_API not found",
        ),
        counter="AttributeError: module 'numpy' has no attribute 'float'",
    ),
    Remedy(
        "torchvision",
        words=r"operator torchvision::\w+ does not exist|Couldn't load custom C\+\+ ops",
        fix=(
            "torchvision was built for another torch: install the one that belongs to this torch (torch 2.N goes with "
            "torchvision 0.N+15), both from the same index."
        ),
        commands=(command("python -m pip list | grep -E '^torch'"),),
        kind="dependency-mismatch",
        source="torchvision _meta_registrations.py, extension.py",
        sample="RuntimeError: operator torchvision::nms does not exist",
        counter="RuntimeError: operator aten::nms does not exist",
    ),
    Remedy(
        "apex",
        words=(
            r"cannot import name 'UnencryptedCookieSessionFactoryConfig'",
            r"[Pp]lease install apex\b",
            r"No module named '(?:apex|amp_C|fused_layer_norm_cuda)(?:\.[\w.]{1,60})?'",
            r"cannot import name '\w{1,60}' from 'apex(?:\.\w{1,60}){0,3}'",
        ),
        fix=(
            "The apex that is meant is NVIDIA's, which is built from its sources with its CUDA extensions "
            "(github.com/NVIDIA/apex); the apex that pip installs from the package index is another project, a web "
            "framework's part. Nothing of it is needed: torch has torch.autocast with torch.amp.GradScaler for "
            "apex.amp, DistributedDataParallel, and torch.nn.SyncBatchNorm.convert_sync_batchnorm for "
            "convert_syncbn_model."
        ),
        commands=(command("python -m pip show apex"),),
        kind="import",
        source="PyPI's apex 0.9.10.dev0 (apex/__init__.py imports pyramid); NVIDIA/apex issues 1063 and 1804, README",
        sample=(
            "ImportError: cannot import name 'UnencryptedCookieSessionFactoryConfig' from 'pyramid.session' (unknown "
            "location)",
            "ImportError: Please install apex from https://www.github.com/nvidia/apex to use fp16 training.",
            "ModuleNotFoundError: No module named 'apex'",
        ),
        counter="ModuleNotFoundError: No module named 'apexcharts'",
    ),
    Remedy(
        "fairscale",
        words=r"No module named 'fairscale(?:\.[\w.]{1,80})?'|[Pp]lease install fairscale\b",
        fix=(
            "fairscale has had no release since 2022, and its work went on in torch: torch.distributed.fsdp "
            "(fully_shard, FullyShardedDataParallel) for ShardedDataParallel and FSDP, "
            "torch.distributed.optim.ZeroRedundancyOptimizer for OSS. The program as it stands wants "
            "pip install fairscale."
        ),
        kind="import",
        source="PyPI: fairscale 0.4.13 of December 2022; torch/distributed/fsdp, torch/distributed/optim",
        sample=(
            "ModuleNotFoundError: No module named 'fairscale'",
            "ModuleNotFoundError: No module named 'fairscale.nn.data_parallel'",
        ),
        counter="ModuleNotFoundError: No module named 'fairseq'",
    ),
    Remedy(
        "horovod",
        words=r"No module named 'horovod(?:\.[\w.]{1,80})?'",
        fix=(
            "Horovod is built against the torch that is installed: HOROVOD_WITH_PYTORCH=1 pip install --no-cache-dir "
            "horovod, behind torch. Its last release is of 2023; torch's DistributedDataParallel under torchrun does "
            "the same."
        ),
        commands=(
            command("env HOROVOD_WITH_PYTORCH=1 python -m pip install --no-cache-dir --no-build-isolation horovod"),
        ),
        kind="import",
        source="Horovod's documentation, Installing; PyPI: horovod 0.28.1 of June 2023",
        sample="ModuleNotFoundError: No module named 'horovod'",
        counter="ModuleNotFoundError: No module named 'horovodlike'",
    ),
    Remedy(
        "torch-six",
        words=r"No module named 'torch\._six'",
        fix=(
            "torch._six was removed in torch 2.0: write from torch import inf, and str for string_classes; or take a "
            "newer release of the package that imports it."
        ),
        kind="dependency-mismatch",
        source="the wheels of torch 1.13.0, which has torch/_six.py, and 2.0.0, which has not",
        sample="ModuleNotFoundError: No module named 'torch._six'",
        counter="ModuleNotFoundError: No module named 'torch.sixth'",
    ),
    Remedy(
        "lightning-plugin",
        words=r"cannot import name '(?P<name>(?:DDP|DDP2|DDPSpawn|DDPSharded|DDPFullySharded|DeepSpeed|Horovod|"
        r"SingleDevice|TPUSpawn|DataParallel)\w{0,20})Plugin' from '(?:pytorch_lightning|lightning\.pytorch)\.plugins",
        fix=(
            "Lightning's plugins of that kind have been strategies since 1.6: from pytorch_lightning.strategies import "
            "{name}Strategy, and Trainer(strategy=...) in place of plugins=. DDPSpawnStrategy became "
            "DDPStrategy(start_method='spawn') with 2.0, and what was fairscale's FSDPStrategy."
        ),
        kind="dependency-mismatch",
        blame="program",
        source="Lightning's CHANGELOG, 1.6.0 (#11142, #11226), 2.0.0 (#16809, #16400)",
        sample="ImportError: cannot import name 'DDPPlugin' from 'pytorch_lightning.plugins' (/v/lib/python3.9/"
        "site-packages/pytorch_lightning/plugins/__init__.py)",
        counter="ImportError: cannot import name 'MixedPrecisionPlugin' from 'pytorch_lightning.plugins' (/v/lib/"
        "python3.9/site-packages/pytorch_lightning/plugins/__init__.py)",
    ),
    Remedy(
        "name-of-package",
        words=r"cannot import name '(?P<name>[\w.]{1,100})' from '(?P<package>(?!__main__)\w{1,60})(?:[.\w]{0,200})'"
        r"(?: \((?P<file>[^)\n]{0,300}(?:site|dist)-packages[^)\n]{0,300})\))",
        types=("ImportError",),
        fix=(
            "The installed {package} has no {name}: the program, or a package beside it, was written for another "
            "release. Install the one that its requirements name, or that was there when it was written."
        ),
        commands=(command("python -m pip check"),),
        kind="dependency-mismatch",
        source="Python Python/ceval.c (import_from)",
        sample="ImportError: cannot import name 'get_info' from 'mmengine.dist.utils' "
        "(/e/lib/python3.9/site-packages/"
        "mmengine/dist/utils.py)",
        counter="ImportError: cannot import name 'build' from 'models' (/w/models/__init__.py)",
    ),
    Remedy(
        "shadowed-module",
        words=(
            r"partially initialized module '(?P<name>[\w.]{1,80})' has no attribute|cannot import name "
            r"'\w{1,80}' from "
            r"partially initialized module '(?P<module>[\w.]{1,80})'"
        ),
        fix=(
            "Two files import each other, or one of yours has the name of a module and is taken in its place: rename "
            "it, remove its .pyc, or import inside the function."
        ),
        kind="import",
        blame="program",
        source="Python Objects/moduleobject.c",
        sample="AttributeError: partially initialized module 'torch' has no attribute 'nn' (most likely due to a "
        "circular import)",
        counter="AttributeError: module 'torch' has no attribute 'nm'",
    ),
    Remedy(
        "required-range",
        words=(
            r"(?P<wanted>[\w.-]{1,60}[<>=!~][^\s]{1,60}) is required for a normal functioning of this "
            r"module, but found "
            r"(?P<found>\S{1,80}?)\.?(?:\s|$)"
        ),
        fix="Install {wanted} ({found} is there), or the release of the package that asks for it which takes {found}.",
        commands=(command("python -m pip check"),),
        kind="dependency-mismatch",
        source="transformers utils/versions.py (_compare_versions)",
        sample="ImportError: tokenizers>=0.21,<0.22 is required for a normal functioning of this module, but found "
        "tokenizers==0.22.0.",
        counter="ImportError: tokenizers is required",
    ),
    Remedy(
        "protobuf",
        words=r"Descriptors cannot (?:not )?be created directly",
        fix=(
            "Code of an old protoc meets a new protobuf: install an older protobuf, or a newer release "
            "of what imports it."
        ),
        commands=(command("python -m pip install 'protobuf==3.20.*'"),),
        kind="dependency-mismatch",
        source="protobuf python/google/protobuf/descriptor.py",
        sample="TypeError: Descriptors cannot be created directly.",
        counter="TypeError: Descriptor must be a string",
    ),
    Remedy(
        "newer-tokenizer",
        words=r"did not match any variant of untagged enum",
        fix="tokenizer.json was written by a newer tokenizers than is installed: install newer ones.",
        commands=(command("python -m pip install --upgrade tokenizers transformers"),),
        kind="dependency-mismatch",
        source="tokenizers src/models/mod.rs (serde)",
        sample="Exception: data did not match any variant of untagged enum ModelWrapper at line 8 column 3",
        counter="Exception: expected value at line 1 column 1",
    ),
    Remedy(
        "tracker-key",
        words=r"api_key not configured \(no-tty\)",
        fix=(
            "wandb has no key here, and asks where nobody can answer: put WANDB_API_KEY into the job's environment or "
            "`wandb login` once on that node; or do without (report_to none, WANDB_MODE=disabled), or keep it for "
            "later."
        ),
        commands=(command("export WANDB_MODE=offline"),),
        kind="config",
        blame="environment",
        source="wandb sdk/lib/apikey.py, sdk/wandb_login.py (prompt_api_key)",
        sample="wandb.errors.UsageError: api_key not configured (no-tty). call wandb.login(key=[your_api_key])",
        counter="wandb.errors.CommError: project not found",
    ),
    Remedy(
        "tracker-refuses",
        types=("CommError",),
        words=r"(?i)permission denied|\b403\b|PERMISSION_ERROR",
        fix=(
            "wandb refuses that entity or project to the user of this key: name those that are the user's own "
            "(entity=, project=; WANDB_ENTITY, WANDB_PROJECT), or log in with another key; WANDB_MODE=offline keeps "
            "the run here."
        ),
        kind="permission",
        source="wandb errors/errors.py (CommError), sdk/wandb_init.py",
        sample="wandb.errors.CommError: failed to upsert bucket: returned error 403 Forbidden: permission denied",
        counter="wandb.errors.CommError: Run initialization has timed out after 90.0 sec.",
    ),
    Remedy(
        "deepspeed-ssh",
        words=r"host=(?P<host>[\w.-]{1,253}) was not reachable via ssh",
        fix=(
            "DeepSpeed starts every host of the hostfile by ssh, this machine too, and {host} asks for a password or "
            "does not answer: copy a key there (ssh-copy-id), accept its host key once, and name another port in "
            "~/.ssh/config. On one node take the hostfile out."
        ),
        commands=(command("ssh-keygen -t ed25519"),),
        kind="route",
        source="deepspeed/launcher/runner.py (main)",
        sample=(
            "RuntimeError: Using hostfile at ./hostfile but host=node-2 was not reachable via ssh. If you are running "
            "with a single node please remove ./hostfile or setup passwordless ssh."
        ),
        counter="RuntimeError: Hostfile is not formatted correctly",
    ),
    Remedy(
        "no-launcher-program",
        words=r"launcher '(?P<name>[\w+-]{1,30})' not installed",
        fix=(
            "Install {name} on the node that starts the job (pdsh: a package of that name), or take another of "
            "DeepSpeed's launchers: --launcher openmpi, or slurm inside of an allocation."
        ),
        kind="import",
        source="deepspeed/launcher/runner.py (main)",
        sample="RuntimeError: launcher 'pdsh' not installed.",
        counter="RuntimeError: launcher 'pdsh' failed",
    ),
    Remedy(
        "gated",
        words=r"(?:Cannot access gated repo|Access to model [^\n]{1,120} is restricted|401 Client Error[^\n]{0,40}"
        r"Unauthorized for url: https://huggingface"
        r"|You must (?:have access to it and )?be authenticated to access it)",
        fix=(
            "Accept the model's terms on its page with the account whose token the job has, and give the job the token "
            "(HF_TOKEN, or `hf auth login` on that node)."
        ),
        kind="permission",
        source="huggingface_hub utils/_http.py (hf_raise_for_status)",
        sample=(
            "OSError: You are trying to access a gated repo.\nCannot access gated repo for url https://huggingface.co/"
        ),
        counter="OSError: 404 Client Error",
    ),
    Remedy(
        "hub-unreachable",
        words=r"We couldn't connect to '?https://(?:huggingface\.co|hf)|outgoing traffic has been disabled|"
        r"Cannot reach https://huggingface\.co",
        fix=(
            "The node has no way to the hub: fetch it once where there is one (hf download), into a folder that the "
            "nodes share (HF_HOME), and set HF_HUB_OFFLINE=1 in the job, or give the folder's path in place of the "
            "name; a proxy goes into HTTPS_PROXY."
        ),
        commands=(command("export HF_HUB_OFFLINE=1"),),
        kind="download",
        restart="not decided",
        source="transformers utils/hub.py (cached_files); huggingface_hub file_download.py",
        sample=(
            "OSError: We couldn't connect to 'https://huggingface.co' to load the files, and couldn't find them in the "
            "cached files."
        ),
        counter="OSError: couldn't connect to the database",
    ),
)
