"""Training interpreters to examine: this one with a torch of a test's making, and scripts that are no Python."""

import os
import stat
import sys
import textwrap
from collections.abc import Mapping
from pathlib import Path

from gpudoctor.active import Child, ChildReply, gather, start, worker
from gpudoctor.read.children import ExamineWish
from gpudoctor.read.interpreter import Interpreter
from gpudoctor.read.python import assemble
from gpudoctor.snapshot import Training

PATIENCE = 90.0  # seconds; only a broken test waits for it

VERSION_FILE = """
    from typing import Optional
    __version__ = {version!r}
    cuda: Optional[str] = {cuda!r}
    hip: Optional[str] = None
    """

# Enough of a CUDA build of torch for the worker: one H100, NCCL, cuDNN.
CUDA_TORCH = """
    import types, warnings

    __version__ = "2.13.0+cu130"
    version = types.SimpleNamespace(cuda="13.0", hip=None)
    properties = types.SimpleNamespace(
        name="NVIDIA H100 80GB HBM3", uuid="1111-2222", major=9, minor=0, total_memory=85520809984
    )
    _C = types.SimpleNamespace(
        _cuda_getDeviceCount=lambda: 1, _cuda_getArchFlags=lambda: "sm_80 sm_90", _nccl_version=1, _cudnn=1
    )
    cuda = types.SimpleNamespace(
        is_available=lambda: True,
        device_count=lambda: 1,
        get_device_properties=lambda ordinal: properties,
        _device_count_nvml=lambda: 1,
        nccl=types.SimpleNamespace(version=lambda: (2, 29, 7, "suffix")),
    )
    distributed = types.SimpleNamespace(
        is_available=lambda: True, is_nccl_available=lambda: True, is_gloo_available=lambda: True
    )
    backends = types.SimpleNamespace(cudnn=types.SimpleNamespace(version=lambda: 91900))
    """


def torch_package(folder: Path, source: str, *, version: str = "2.13.0+cu130", cuda: str | None = "13.0") -> Path:
    """Write a package `torch` into a folder for PYTHONPATH; `source` is its __init__.py. Returns the folder."""
    package = folder / "torch"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(textwrap.dedent(source), encoding="utf-8")
    text = textwrap.dedent(VERSION_FILE).format(version=version, cuda=cuda)
    (package / "version.py").write_text(text, encoding="utf-8")
    return folder


def script(folder: Path, text: str) -> str:
    """An executable file to pass for an interpreter. Returns its path."""
    path = folder / "python"
    path.write_text(text, encoding="utf-8")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def environment(**variables: str) -> dict[str, str]:
    """This environment with some variables, and without those that lead to other libraries."""
    return {key: value for key, value in os.environ.items() if not key.startswith("LD_")} | variables


def say(
    python: str, name: str, *arguments: str, variables: Mapping[str, str], until: bytes | None = None
) -> ChildReply:
    """Run a worker. With `until`, its deadline passes as soon as it has said that, however fast this machine is."""
    child = start(name, worker(python, name, *arguments), timeout=PATIENCE, environment=variables)

    def waiting(names: object) -> None:
        if until is not None and until in bytes(child.output):
            expire(child)

    return gather([child], waiting)[name]


def expire(child: Child) -> None:
    child.timeout = 0.0


def examine(
    python: str = sys.executable,
    *,
    torch: bool = True,
    until: bytes | None = None,
    until_of_files: bytes | None = None,
    **variables: str,
) -> Training:
    """What is read of a training interpreter, under a `--timeout` of 10 s."""
    surroundings = environment(**variables)
    wish = ExamineWish(Interpreter(python, "--python"), torch=torch)
    static = say(python, "python_facts", variables=surroundings, until=until_of_files)
    reply = say(python, "torch_facts", variables=surroundings, until=until) if torch else None
    return assemble(wish, static, reply)
