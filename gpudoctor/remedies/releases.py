"""What is said where a package is of another release than a program, a model or a data set was written for."""

from gpudoctor.command import command
from gpudoctor.remedy import Remedy

REMEDIES = (
    Remedy(
        "numpy-removed",
        words=r"`np\.(?P<name>\w{1,30})` was removed in the NumPy 2\.0 release",
        fix=(
            "What uses np.{name} was written for NumPy 1: install that (numpy==1.26.4, for Python up to 3.12), or a "
            "newer release of the package whose file the last frame names; in the program's own code write what the "
            "message proposes."
        ),
        commands=(command("python -m pip install numpy==1.26.4"),),
        kind="dependency-mismatch",
        source="NumPy 2.0 numpy/__init__.py (__getattr__), numpy/_expired_attrs_2_0.py",
        sample="AttributeError: `np.NaN` was removed in the NumPy 2.0 release. Use `np.nan` instead.",
        counter="AttributeError: np.nan was not there",
    ),
    Remedy(
        "numpy-alias",
        words=r"module 'numpy' has no attribute '(?P<name>float|int|bool|object|str|complex|long|unicode)'",
        fix=(
            "np.{name} was an alias that NumPy 1.24 removed: install an older one (numpy==1.23.5, for Python up to "
            "3.11), or a newer release of the package that uses it; in the program's own code write the plain {name}."
        ),
        commands=(command("python -m pip install numpy==1.23.5"),),
        kind="dependency-mismatch",
        source="NumPy 1.24 release notes (expired deprecations), numpy/__init__.py (__former_attrs__)",
        sample="AttributeError: module 'numpy' has no attribute 'float'. Did you mean: 'cfloat'?",
        counter="AttributeError: module 'numpy' has no attribute 'floats'",
    ),
    Remedy(
        "older-rope",
        words=r"`rope_scaling` must be a dictionary with (?:two|exactly two|three) fields|"
        r"`rope_scaling`'s type field must be one of \[",
        fix=(
            "The model's config.json describes its rope_scaling in a newer form than the installed transformers knows "
            "(rope_type: since 4.43, for Llama 3.1): python -m pip install --upgrade transformers, and what pins it "
            "(vLLM, LLaMA-Factory) with it."
        ),
        commands=(command("python -m pip install --upgrade transformers"),),
        kind="dependency-mismatch",
        source="transformers 4.42 models/llama/configuration_llama.py (_rope_scaling_validation), 4.43 "
        "modeling_rope_utils.py",
        sample="ValueError: `rope_scaling` must be a dictionary with two fields, `type` and `factor`, got {'factor': "
        "8.0, 'rope_type': 'llama3'}",
        counter="ValueError: rope_scaling must be positive",
    ),
    Remedy(
        "scheduler-class",
        words=r"The provided lr scheduler `(?P<name>\w{1,60})` doesn't follow PyTorch's LRScheduler API",
        fix=(
            "{name} is a scheduler of a newer torch than this Lightning knows, where it is one of torch's: install a "
            "Lightning for torch 2 (1.9, 2.0 or newer), or a torch before 2 beside this one. For a class of your own "
            "override lr_scheduler_step in the module."
        ),
        commands=(command("python -m pip install --upgrade lightning pytorch-lightning"),),
        kind="dependency-mismatch",
        source="Lightning core/optimizer.py (_validate_scheduler_api); torch 2.0 optim/lr_scheduler.py (LRScheduler)",
        sample="MisconfigurationException: The provided lr scheduler `LambdaLR` doesn't follow PyTorch's LRScheduler "
        "API. You should override the `LightningModule.lr_scheduler_step` hook",
        counter="MisconfigurationException: The lr scheduler dict must have the key",
    ),
    Remedy(
        "dataset-script",
        words=(
            r"Dataset scripts are no longer supported, but found (?P<file>[\w.-]{1,120})",
            r"`trust_remote_code` is not supported anymore",
        ),
        fix=(
            "datasets since 4.0 runs no script of a data set: install one of before (pip install datasets==3.6.0), or "
            "take the data set in Parquet or JSON (its branch refs/convert/parquet, or another copy of it)."
        ),
        commands=(command("python -m pip install datasets==3.6.0"),),
        kind="dependency-mismatch",
        source="datasets 4.0.0 load.py (dataset_module_factory)",
        sample="RuntimeError: Dataset scripts are no longer supported, but found reviews-2023.py",
        counter="RuntimeError: scripts are not supported",
    ),
    Remedy(
        "old-interpolation",
        words=r"interpolation key '(?P<key>[\w.]{1,120})' not found",
        fix=(
            "The configuration refers to {key}, and nothing in it defines that. In a file of your own define it, or "
            "correct the name. Where a framework's own configuration does so, omegaconf and hydra-core are of other "
            "releases than it was written for: install those that its requirements name (fairseq: "
            "'omegaconf<2.1' 'hydra-core<1.1')."
        ),
        commands=(command("python -m pip list | grep -iE 'omegaconf|hydra'"),),
        kind="config",
        blame="environment",
        source="omegaconf 2.0, 2.1 base.py (_resolve_interpolation); fairseq setup.py",
        sample="omegaconf.errors.ConfigKeyError: str interpolation key 'common.tpu' not found",
        counter="omegaconf.errors.ConfigKeyError: Missing key tpu",
    ),
    Remedy(
        "state-of-no-module",
        types=("AttributeError",),
        words=r"Can't get attribute '(?P<name>\w{1,80})' on <module '(?P<module>[\w.]{1,80})'",
        fix=(
            "The pickle was written by a program in which {module} has {name}: define or import it there before it is "
            "read (what was the main script then has to be it now), or install the release of {module} that wrote it. "
            "Of a model save the state_dict, which names no classes."
        ),
        kind="checkpoint",
        source="Python Lib/pickle.py (find_class)",
        sample="AttributeError: Can't get attribute 'Net' on <module '__main__' from 'eval.py'>",
        counter="AttributeError: Can't pickle local object 'f.<locals>.g'",
    ),
    Remedy(
        "missing-bits-and-bytes",
        words=r"[Uu]sing `?bitsandbytes`? 4-bit|`load_in_[48]bit` requires|"
        r"[48]-bit quantization requires (?:the latest "
        r"version of )?bitsandbytes|bitsandbytes[^\n]{0,60} requires Accelerate: `pip install accelerate`",
        fix=(
            "Loading in 8 or 4 bits wants accelerate and a bitsandbytes for this GPU and CUDA: install both anew "
            "(pip install -U bitsandbytes accelerate) into the environment that runs, and start the notebook's kernel "
            "again where there is one; bitsandbytes of before sees no GPU where torch sees none."
        ),
        commands=(command("python -m pip install --upgrade bitsandbytes accelerate"),),
        kind="import",
        source="transformers quantizers/quantizer_bnb_4bit.py (validate_environment)",
        sample="ImportError: Using `bitsandbytes` 4-bit quantization requires the latest version of bitsandbytes: `pip "
        "install -U bitsandbytes`",
        counter="ImportError: bitsandbytes is there",
    ),
)
