"""Modules that `pip install NAME` does not bring: those that Python lost or was built without, those that a package's
sources or an index of its own bring, and parts that a release took away; what brings each.

Sources: PEP 594 and PEP 632, Python's "What's New" of 3.12 and 3.13, its Modules/Setup and configure.ac (optional
extensions); the installation pages of each project; the changelogs of torchvision, torchtext, Lightning, scikit-learn,
TensorFlow and setuptools.
"""

from collections.abc import Mapping

GONE = (
    "Python took {name} away in {release}: start with an older Python (python{older}), or take a newer release of what "
    "imports it"
)
OF_PYTHON: Mapping[str, tuple[str, str]] = {
    **dict.fromkeys(("asynchat", "asyncore", "imp", "smtpd"), ("3.12", "3.11")),
    **dict.fromkeys(
        (
            *("aifc", "audioop", "cgi", "cgitb", "chunk", "crypt", "imghdr", "mailcap", "msilib", "nis", "nntplib"),
            *("ossaudiodev", "pipes", "sndhdr", "spwd", "sunau", "telnetlib", "uu", "xdrlib", "lib2to3"),
        ),
        ("3.13", "3.12"),
    ),
}
WITHOUT: Mapping[str, str] = {
    "_bz2": "libbz2-dev",
    "_ctypes": "libffi-dev",
    "_curses": "libncurses-dev",
    "_gdbm": "libgdbm-dev",
    "_lzma": "liblzma-dev",
    "_sqlite3": "libsqlite3-dev",
    "_ssl": "libssl-dev",
    "_tkinter": "tk-dev",
    "_uuid": "uuid-dev",
    "readline": "libreadline-dev",
    "zlib": "zlib1g-dev",
}
FROM_GIT = "{name} is installed from its sources, and PyPI's package of that name, if any, is another: {how}"
BROUGHT: Mapping[str, str] = {
    "distutils": "Python took distutils away in 3.12: python -m pip install setuptools brings one in its place, or "
    "start with Python 3.11",
    "pkg_resources": "pkg_resources is of setuptools, which newer environments do not have and whose newest releases "
    "no longer hold it: python -m pip install 'setuptools<81'",
    "tkinter": "tkinter is the system's own package (Debian, Ubuntu: python3-tk; conda has it); on nodes without a "
    "screen take matplotlib's Agg (MPLBACKEND=Agg)",
    **{
        name: FROM_GIT.format(name=name, how=how)
        for name, how in {
            "clip": "python -m pip install git+https://github.com/openai/CLIP.git",
            "segment_anything": "python -m pip install git+https://github.com/facebookresearch/segment-anything.git",
            "detectron2": "python -m pip install --no-build-isolation "
            "git+https://github.com/facebookresearch/detectron2.git, where nvcc and torch are of one CUDA",
            "pytorch3d": "python -m pip install --no-build-isolation "
            "git+https://github.com/facebookresearch/pytorch3d.git, "
            "or the wheel for this torch that its INSTALL.md names",
            "MinkowskiEngine": "build it by its setup.py with nvcc of torch's CUDA",
            "tinycudann": "python -m pip install "
            "git+https://github.com/NVlabs/tiny-cuda-nn/#subdirectory=bindings/torch",
            "nvdiffrast": "python -m pip install --no-build-isolation git+https://github.com/NVlabs/nvdiffrast.git",
            "simple_knn": "python -m pip install --no-build-isolation the submodules/simple-knn of the project (git "
            "submodule update --init --recursive brings it)",
            "diff_gaussian_rasterization": "python -m pip install --no-build-isolation the "
            "submodules/diff-gaussian-rasterization of the project (git submodule update --init --recursive brings it)",
            "MultiScaleDeformableAttention": "run make.sh in the project's models/ops (or pixel_decoder/ops), where "
            "nvcc and torch are of one CUDA",
            "pointnet2_ops": "python -m pip install --no-build-isolation the project's pointnet2_ops_lib",
            "taming": "python -m pip install -e "
            "git+https://github.com/CompVis/taming-transformers.git#egg=taming-transformers",
            "ldm": "python -m pip install -e . in the folder of the project that has it",
            "flash_attn_interface": "FlashAttention 3 is built from the folder hopper of its sources (python setup.py "
            "install); FlashAttention 2 is imported as flash_attn",
        }.items()
    },
    **dict.fromkeys(
        ("torch_scatter", "torch_sparse", "torch_cluster", "torch_spline_conv", "pyg_lib"),
        "PyG's extensions are built for one torch and one CUDA: python -m pip install pyg_lib torch_scatter "
        "torch_sparse torch_cluster -f https://data.pyg.org/whl/torch-VERSION+CUDA.html, with what torch.__version__ "
        "tells",
    ),
    "spconv": "spconv's package names its CUDA: python -m pip install spconv-cu120 (or -cu118), as "
    "torch.version.cuda is",
    "nvidia.dali": "DALI comes from NVIDIA's index: python -m pip install --extra-index-url https://pypi.nvidia.com "
    "nvidia-dali-cuda120",
    "flash_attn": "flash-attn is compiled against the torch that is there: install that first, then python -m pip "
    "install flash-attn --no-build-isolation (with nvcc of torch's CUDA), or the wheel of its releases for this "
    "torch, CUDA, Python and C++ ABI; most programs run without it by attn_implementation='sdpa'",
    "mamba_ssm": "mamba-ssm is compiled against the torch that is there: python -m pip install causal-conv1d mamba-ssm "
    "--no-build-isolation, or the wheels of its releases for this torch, CUDA and Python",
    "causal_conv1d": "causal-conv1d is compiled against the torch that is there: python -m pip install causal-conv1d "
    "--no-build-isolation, or the wheel of its releases for this torch, CUDA and Python",
    "transformer_engine": "Transformer Engine is compiled for torch: python -m pip install --no-build-isolation "
    "'transformer-engine[pytorch]', or take NVIDIA's PyTorch container, which has it",
    **dict.fromkeys(
        ("megatron", "megatron.training", "megatron.legacy", "megatron.data", "megatron.model"),
        "megatron is the folder of Megatron-LM's sources: put the clone into PYTHONPATH (or pip install -e it); "
        "megatron.core alone is python -m pip install megatron-core",
    ),
    "torchvision.transforms.functional_tensor": "torchvision took transforms.functional_tensor away in 0.17: import "
    "from torchvision.transforms.functional, take a newer release of what imports it (basicsr, gfpgan), or "
    "torchvision 0.16 with its torch",
    "numpy._core": "numpy._core is NumPy 2's name for numpy.core: the pickle or .npy that is read was written under "
    "NumPy 2. python -m pip install --upgrade 'numpy>=2' (1.26 reads it too), or write it again under NumPy 1",
    "torch._six": "torch 2.0 took torch._six away: take a newer release of what imports it (an old DeepSpeed, timm, "
    "apex or repository), or torch 1.13; in code of your own `inf` is torch.inf, and string_classes is str",
    "triton.ops": "triton took ops away in 3.2 (torch 2.6): take a newer release of what imports it (bitsandbytes: "
    "python -m pip install --upgrade 'bitsandbytes>=0.45.1'), or the torch before, with triton 3.1",
    "mmcv._ext": "this mmcv has no compiled operators (mmcv-lite, or a build without them): python -m pip uninstall "
    "mmcv mmcv-lite mmcv-full, then mim install mmcv in the release that the project asks for, whose wheel names this "
    "torch and CUDA",
    **dict.fromkeys(
        ("mmcv.runner", "mmcv.parallel", "mmcv.engine", "mmcv.fileio"),
        "mmcv 2.0 moved its runners, hooks and parallel parts to mmengine, and the project was written for mmcv 1: "
        "python -m pip install -U openmim, then mim install 'mmcv-full<1.8' (with the mmdet or mmseg that it names), "
        "or take the project's branch for mmcv 2",
    ),
    "timm.layers": "timm has layers since 0.9 (timm.models.layers before): python -m pip install --upgrade 'timm>=0.9'",
    "mpi4py": "mpi4py is built on an MPI: conda install -c conda-forge mpi4py openmpi, or pip where mpicc is found. "
    "DeepSpeed asks for it only in a process that no launcher started: start by deepspeed or torchrun, which set RANK "
    "and WORLD_SIZE, and it needs none",
    "torchtext.legacy": "torchtext took legacy away in 0.12: rewrite what uses Field and BucketIterator, or take "
    "torchtext 0.11 with torch 1.10",
    "pytorch_lightning.metrics": "Lightning took metrics away in 1.5: python -m pip install torchmetrics, and import "
    "from there",
    "pytorch_lightning.utilities.distributed": "Lightning 2.0 took utilities.distributed away: import rank_zero_only "
    "from pytorch_lightning.utilities.rank_zero, or take pytorch-lightning<2",
    **dict.fromkeys(
        ("sklearn.externals.joblib", "sklearn.externals.six"),
        "scikit-learn took externals.joblib and externals.six away in 0.23: import joblib and six themselves",
    ),
    "tensorflow.contrib": "TensorFlow 2 has no contrib: the program was written for TensorFlow 1 (tensorflow<2, with "
    "Python 3.7 at most), or take a release of it for 2",
}


NAMESPACES: Mapping[str, str] = {
    "google.cloud": "google-cloud-",
    "backports": "backports.",
    "ruamel": "ruamel.",
}
"""Packages of which each part is a distribution of its own, and how that is called."""


def part_of_namespace(module: str) -> str:
    """The distribution that brings this part; empty where its package is one."""
    for namespace, of in NAMESPACES.items():
        if module.startswith(f"{namespace}."):
            return of + module.removeprefix(f"{namespace}.").partition(".")[0].replace("_", "-")
    return ""


def brought_by(module: str) -> str:
    """What brings a module, as a sentence without its full stop; empty where pip does so by its name, or nobody here
    knows."""
    if told := BROUGHT.get(module):  # of a dotted name what stands before its last part is there
        return told
    top = module
    if top in OF_PYTHON:
        release, older = OF_PYTHON[top]
        return GONE.format(name=top, release=release, older=older)
    if library := WITHOUT.get(top):
        return (
            f"This Python was built without {top}: install {library} (Debian, Ubuntu) and build it anew (pyenv install "
            f"--force), or take the system's or conda's Python, which has it"
        )
    return ""


__all__ = ["brought_by", "part_of_namespace"]
