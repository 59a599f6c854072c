"""What libraries of pictures and of training loops say, each in words that only it writes, as in `libraries`."""

from gpudoctor.check import command
from gpudoctor.remedy import Remedy

REMEDIES = (
    Remedy(
        "not-a-number-backward",
        words=r"Function "
        r"'(?P<name>Sqrt|Pow|LinalgVectorNorm|Norm|Log\w{0,3}|Div|Acos|Asin|Atan2|Cdist|Rsqrt|Reciprocal)"
        r"Backward\d{1,2}' returned nan values",
        fix=(
            "The derivative of {name} is not finite there (of a root, a norm, a logarithm or a quotient at 0): add a "
            "small number inside of it (torch.sqrt(x + 1e-8), x.clamp(min=1e-8)), compute it in float32, and mask by "
            "torch.where before and not behind it. The traceback above `Error detected in {name}Backward` names the "
            "line."
        ),
        kind="nan",
        source="torch csrc/autograd/engine.cpp (validate_outputs, detect_anomaly)",
        sample="RuntimeError: Function 'SqrtBackward0' returned nan values in its 0th output.",
        counter="RuntimeError: Function 'AddmmBackward0' returned nan values in its 1th output.",
    ),
    Remedy(
        "generator-of-another-device",
        words=r"Expected a '(?P<want>\w{2,12})' device type for generator but found '(?P<have>\w{2,12})'",
        fix=(
            "A random generator of {have} meets tensors of {want}: torch.Generator(device='{want}'). Of a DataLoader "
            "it comes of torch.set_default_device or set_default_tensor_type('torch.cuda.FloatTensor'): take that "
            "away, or give DataLoader and sampler generator=torch.Generator(device='{want}')."
        ),
        kind="argument",
        source="torch aten/src/ATen/core/Generator.h (check_generator)",
        sample="RuntimeError: Expected a 'cuda' device type for generator but found 'cpu'",
        counter="RuntimeError: Expected a cuda device",
    ),
    Remedy(
        "scipy-integrate-renamed",
        words=r"cannot import name '(?P<name>simps|trapz|cumtrapz)' from 'scipy\.integrate'",
        fix=(
            "scipy 1.14 has {name} no more: write simpson for simps, trapezoid for trapz, cumulative_trapezoid for "
            "cumtrapz; in a package's code a newer release of it, or python -m pip install 'scipy<1.14'."
        ),
        commands=(command("python -m pip install 'scipy<1.14'"),),
        kind="dependency-mismatch",
        source="scipy integrate/__init__.py: 1.13.1 has them, 1.14.1 has not",
        sample="ImportError: cannot import name 'simps' from 'scipy.integrate' (/v/scipy/integrate/__init__.py)",
        counter="ImportError: cannot import name 'quad' from 'scipy.integrate'",
    ),
    Remedy(
        "scipy-windows-moved",
        words=r"cannot import name "
        r"'(?P<name>gaussian|hann|hamming|kaiser|blackman|bartlett|boxcar|chebwin|cosine|triang|"
        r"tukey|parzen|bohman|nuttall|flattop|barthann|general_gaussian)' from 'scipy\.signal'",
        fix=(
            "scipy 1.13 has its windows in scipy.signal.windows only: write from scipy.signal.windows import {name}; "
            "in a package's code a newer release of it, or python -m pip install 'scipy<1.13'."
        ),
        commands=(command("python -m pip install 'scipy<1.13'"),),
        kind="dependency-mismatch",
        source="scipy signal/__init__.py: 1.12.0 still passes them on (deprecated_windows), 1.13.1 does not",
        sample="ImportError: cannot import name 'gaussian' from 'scipy.signal' (/v/scipy/signal/__init__.py)",
        counter="ImportError: cannot import name 'stft' from 'scipy.signal'",
    ),
    Remedy(
        "newer-ultralytics",
        types=("AttributeError",),
        words=r"Can't get attribute '(?P<name>\w{1,80})' on <module 'ultralytics\.[\w.]{1,80}'",
        fix=(
            "The weights are of a newer model than the installed ultralytics knows ({name}): python -m pip install "
            "--upgrade ultralytics."
        ),
        commands=(command("python -m pip install --upgrade ultralytics"),),
        kind="dependency-mismatch",
        source="ultralytics nn/modules/block.py (its classes by release); Python Lib/pickle.py (find_class)",
        sample="AttributeError: Can't get attribute 'C3k2' on <module 'ultralytics.nn.modules.block' from "
        "'/v/block.py'>",
        counter="AttributeError: Can't get attribute 'Net' on <module '__main__' from 'eval.py'>",
    ),
    Remedy(
        "loss-unsafe-to-autocast",
        words=r"binary_cross_entropy and torch\.nn\.BCELoss are unsafe to autocast",
        fix=(
            "Under autocast take BCEWithLogitsLoss (binary_cross_entropy_with_logits) and leave the model's last "
            "sigmoid out, or compute this loss outside of it: with torch.autocast('cuda', enabled=False), on "
            "outputs.float()."
        ),
        kind="argument",
        source="torch aten/src/ATen/autocast_mode.cpp",
        sample="RuntimeError: torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast.",
        counter="RuntimeError: BCELoss wants probabilities",
    ),
    Remedy(
        "ragged-rows",
        words=r"setting an array element with a sequence\. The requested array has an inhomogeneous shape after "
        r"(?P<dims>\d{1,3}) dim",
        fix=(
            "The rows are not of one length, of which NumPy makes no array since 1.24: pad or cut them to one length, "
            "keep them as a list, or write np.array(rows, dtype=object). In a package's own code: numpy<1.24, or a "
            "newer release of that package."
        ),
        kind="data",
        source="numpy _core/src/multiarray/array_coercion.c; release notes of 1.24 (expired deprecations)",
        sample="ValueError: setting an array element with a sequence. The requested array has an inhomogeneous shape "
        "after 1 dimensions. The detected shape was (3,) + inhomogeneous part.",
        counter="ValueError: setting an array element with a sequence.",
    ),
    Remedy(
        "two-lightnings",
        words=r"`model` must be a `LightningModule` or `torch\._dynamo\.OptimizedModule`, got `(?P<name>\w{1,80})`",
        fix=(
            "{name} is no LightningModule of the package whose Trainer is used: lightning and pytorch_lightning are "
            "two packages with classes of their own. Import all of module, data module, callbacks and Trainer from one "
            "of them (import lightning.pytorch as pl, or import pytorch_lightning as pl)."
        ),
        kind="argument",
        source="lightning/pytorch/utilities/compile.py (_maybe_unwrap_optimized)",
        sample="TypeError: `model` must be a `LightningModule` or `torch._dynamo.OptimizedModule`, got `LitNet`",
        counter="TypeError: `model` must be a `LightningModule`",
    ),
    Remedy(
        "step-without-loss",
        words=r"when `training_step` returns a dict, the 'loss' key needs to be present",
        fix=(
            "training_step gives back a dict without 'loss': return {{'loss': loss, ...}} or the loss itself, with its "
            "graph (None skips the step); what is to be logged goes into self.log."
        ),
        kind="argument",
        source="lightning/pytorch/loops/optimization/automatic.py (ClosureResult.from_training_step_output)",
        sample="MisconfigurationException: In automatic_optimization, when `training_step` returns a dict, the 'loss' "
        "key needs to be present",
        counter="MisconfigurationException: training_step returns a dict",
    ),
    Remedy(
        "metric-without-task",
        types=("TypeError",),
        words=r"(?P<name>[A-Z]\w{1,60})\.__new__\(\) missing 1 required positional argument: 'task'|"
        r"__new__\(\) missing 1 required positional argument: 'task'",
        fix=(
            "torchmetrics since 0.11 asks which task it is: Accuracy(task='multiclass', num_classes=N), task='binary', "
            "or task='multilabel' with num_labels=N; an older program runs with torchmetrics<0.11."
        ),
        kind="dependency-mismatch",
        blame="program",
        source="torchmetrics classification/*.py (__new__): 0.11.4 asks for task, 0.10.3 does not",
        sample="TypeError: Accuracy.__new__() missing 1 required positional argument: 'task'",
        counter="TypeError: f() missing 1 required positional argument: 'task'",
    ),
    Remedy(
        "operators-without-cuda",
        words=r"(?P<name>\w{2,60}): implementation for device (?P<device>cuda(?::\d+)?) not found",
        fix=(
            "mmcv was built without CUDA, so that it has no {name} for a GPU: install the mmcv built for this torch "
            "and CUDA (pip uninstall mmcv mmcv-full, then mim install mmcv in the release that the project asks for), "
            "or build it where nvcc is and a GPU is seen (FORCE_CUDA=1 MMCV_WITH_OPS=1)."
        ),
        kind="dependency-mismatch",
        source="mmcv ops/csrc/common/pytorch_device_registry.hpp (Dispatch)",
        sample="RuntimeError: nms_impl: implementation for device cuda:0 not found.",
        counter="RuntimeError: implementation not found",
    ),
    Remedy(
        "torchvision-without-cuda",
        words=r"Could not run '(?P<name>torchvision::\w{1,60})' with arguments from the 'CUDA' backend",
        fix=(
            "This torchvision was built without CUDA, or for another torch, and has no {name} for the GPU: install "
            "torch and torchvision together, both from the same index of the same CUDA (torch 2.N goes with "
            "torchvision 0.N+15)."
        ),
        commands=(command("python -m pip list | grep -E '^torch'"),),
        kind="dependency-mismatch",
        source="torch aten/src/ATen/core/dispatch/OperatorEntry.cpp (reportError); torchvision csrc/ops",
        sample="NotImplementedError: Could not run 'torchvision::nms' with arguments from the 'CUDA' backend.",
        counter="NotImplementedError: Could not run 'aten::x' with arguments from the 'CUDA' backend.",
    ),
    Remedy(
        "other-cuda-of-torchvision",
        words=r"PyTorch and torchvision were compiled with different CUDA (?:major )?versions\. PyTorch has CUDA "
        r"Version="
        r"(?P<torch>\d{1,2}\.\d{1,2}) and torchvision has CUDA Version=(?P<other>\d{1,2}\.\d{1,2})",
        fix=(
            "Install torchvision anew for CUDA {torch}, as torch is: both from the same index "
            "(https://download.pytorch.org/whl/cu...); it is one for {other} now."
        ),
        kind="dependency-mismatch",
        source="torchvision extension.py (_check_cuda_version)",
        sample="RuntimeError: Detected that PyTorch and torchvision were compiled with different CUDA major versions. "
        "PyTorch has CUDA Version=12.1 and torchvision has CUDA Version=11.8. Please reinstall",
        counter="RuntimeError: PyTorch and torchvision differ",
    ),
    Remedy(
        "image-not-read",
        words=r"\(-215:Assertion failed\) !(?:ssize|_src|_img|src)\.empty\(\)(?: in function '(?P<name>\w{2,40})')?",
        fix=(
            "OpenCV was given an empty image: cv2.imread gives None, and no error, where the path is wrong, the file "
            "is cut off, or it knows no such format. Look for None behind imread and print the path there; a frame "
            "behind a film's end is empty too."
        ),
        kind="data",
        source="opencv modules/imgproc/src (resize.cpp, color.cpp); imgcodecs loadsave.cpp",
        sample="OpenCVError: OpenCV(4.8.1) /io/opencv/modules/imgproc/src/resize.cpp:4062: error: (-215:Assertion "
        "failed) !ssize.empty() in function 'resize'",
        counter="OpenCVError: OpenCV(4.8.1) error: (-215:Assertion failed) dims <= 2",
    ),
)

__all__ = ["REMEDIES"]
