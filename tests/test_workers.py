"""The workers python_facts and torch_facts, run by real and by broken training interpreters."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from gpudoctor.active import MARK, ChildReply, signal_name
from gpudoctor.read.children import ExamineWish
from gpudoctor.read.interpreter import Interpreter
from gpudoctor.read.python import assemble
from gpudoctor.snapshot import Probe, Training
from tests.lab.requirements import require
from tests.patients import CUDA_TORCH, examine, script, torch_package

WORKERS = Path(__file__).parent.parent / "gpudoctor" / "workers"
POSIX = pytest.mark.skipif(os.name != "posix", reason="scripts with #! lines")


def probe_of(training: Training) -> Probe:
    return training.torch_probe.value


# ---------------------------------------------------------------- a healthy patient


def test_reads_this_interpreter_as_torch_describes_itself() -> None:
    code = (
        "import torch, json; print(json.dumps([torch.__version__, torch.__file__, torch.version.cuda, "
        "torch.cuda.is_available(), torch.distributed.is_gloo_available()]))"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    version, file, cuda, available, has_gloo = json.loads(answer)
    found = examine()
    facts = found.torch.value
    assert found.python_version.value == sys.version.split()[0]
    assert found.torch_files.value.version == facts.version == version
    assert found.torch_files.value.path == str(Path(file).parent)
    assert found.torch_files.value.cuda == facts.cuda_version == cuda
    assert found.packages.value["torch"] == version.partition("+")[0] or found.packages.value["torch"] == version
    assert facts.cuda_available == available
    assert ("gloo" in facts.distributed_backends) == has_gloo
    assert facts.import_seconds > 0
    assert found.torch_probe.value.outcome == found.python_probe.value.outcome == "answered"


def test_reads_a_cuda_build(tmp_path: Path) -> None:
    facts = examine(PYTHONPATH=str(torch_package(tmp_path, CUDA_TORCH))).torch.value
    assert facts.cuda_built and facts.cuda_available and facts.device_count == 1
    device = facts.devices[0]
    assert (device.kind, device.uuid, device.compute_capability) == ("cuda", "1111-2222", (9, 0))
    assert facts.arch_list == ("sm_80", "sm_90")
    assert facts.nccl_version == (2, 29, 7)
    assert facts.cudnn_version == 91900
    assert facts.distributed_backends == ("nccl", "gloo")
    assert facts.nvml_device_count == 1
    assert facts.init_error == ""


def test_keeps_the_words_in_which_torch_gives_up_cuda_and_cudnn(tmp_path: Path) -> None:
    source = (
        CUDA_TORCH
        + """
    def is_available():
        warnings.warn("CUDA initialization: The NVIDIA driver on your system is too old (found version 11040).")
        return False
    cuda.is_available = is_available
    def version():
        raise RuntimeError("cuDNN version incompatibility")
    backends.cudnn.version = version
    """
    )
    # `ignore` is a filter that users set against torch's warnings; what torch says must be heard all the same.
    facts = examine(PYTHONPATH=str(torch_package(tmp_path, source)), PYTHONWARNINGS="ignore").torch.value
    assert not facts.cuda_available
    assert "too old (found version 11040)" in facts.init_error
    assert facts.cudnn_error == "RuntimeError: cuDNN version incompatibility"


def test_availability_is_cudas_word_and_not_nvmls(tmp_path: Path) -> None:
    source = (
        CUDA_TORCH
        + """
    import os
    cuda.is_available = lambda: "PYTORCH_NVML_BASED_CUDA_CHECK" in os.environ
    """
    )
    folder = str(torch_package(tmp_path, source))
    assert not examine(PYTHONPATH=folder, PYTORCH_NVML_BASED_CUDA_CHECK="1").torch.value.cuda_available


def test_a_chatty_torch_does_not_garble_the_answer(tmp_path: Path) -> None:
    source = 'print("@gpudoctor {broken", flush=True)\nimport os\nos.write(1, b"welcome\\n")\n'
    found = examine(PYTHONPATH=str(torch_package(tmp_path, source + "\n" + _dedented(CUDA_TORCH))))
    assert probe_of(found).outcome == "answered"


def _dedented(source: str) -> str:
    import textwrap

    return textwrap.dedent(source)


# ---------------------------------------------------------------- no torch, damaged torch


def test_an_interpreter_without_torch_has_none_and_nothing_is_unread(tmp_path: Path) -> None:
    # A stray folder named torch (a data set, a clone of the sources) is no torch.
    (tmp_path / "torch").mkdir()
    found = examine(_without_site_packages(tmp_path), PYTHONPATH=str(tmp_path))
    assert found.torch_files.missing_kind == found.torch.missing_kind == found.torch_probe.missing_kind == "absent"
    assert found.packages.is_read


def _without_site_packages(folder: Path) -> str:
    return script(folder, f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')


def test_a_torch_without_its_version_is_damaged_and_not_absent(tmp_path: Path) -> None:
    folder = torch_package(tmp_path, "raise ImportError('cannot import name _C')")
    (folder / "torch" / "version.py").unlink()
    found = examine(PYTHONPATH=str(folder))
    assert found.torch_files.missing_kind == "failed"
    assert "version.py" in found.torch_files.reason


def test_torch_is_not_imported_when_nobody_asks(tmp_path: Path) -> None:
    witness = tmp_path / "imported"
    folder = torch_package(tmp_path / "site", f"open({str(witness)!r}, 'w').close()")
    found = examine(torch=False, PYTHONPATH=str(folder))
    assert found.torch.missing_kind == found.torch_probe.missing_kind == "not-asked"
    assert "--no-torch" in found.torch.reason
    assert found.torch_files.value.version == "2.13.0+cu130"
    assert not witness.exists()


# ---------------------------------------------------------------- torch that fails

FAILURES = {
    "an exception": ("raise ImportError('libcudnn.so.9: no such file.')", "raised", "import torch", "libcudnn.so.9"),
    "sys.exit": ("import sys; sys.exit(0)", "raised", "import torch", "SystemExit"),
    "a segfault": ("import ctypes; ctypes.string_at(0)", "crashed", "import torch", "SIGSEGV"),
    "an exit status": ("import os; os._exit(3)", "crashed", "import torch", "exit status 3"),
    "a quiet end": ("import os; os._exit(0)", "garbled", "import torch", "nothing"),
    "a syntax error": ("def", "raised", "import torch", "SyntaxError"),
    "a crash in CUDA": (
        CUDA_TORCH + "\n    import ctypes\n    cuda.is_available = lambda: ctypes.string_at(0)",
        "crashed",
        "torch.cuda.is_available()",
        "SIGSEGV",
    ),
    "an exception in CUDA": (
        CUDA_TORCH + "\n    def lost(ordinal): raise RuntimeError('CUDA error: GPU is lost')"
        "\n    cuda.get_device_properties = lost",
        "raised",
        "torch.cuda.get_device_properties()",
        "GPU is lost",
    ),
}


@POSIX
@pytest.mark.parametrize(("source", "outcome", "step", "detail"), FAILURES.values(), ids=FAILURES)
def test_a_torch_that_fails_is_told_from_one_that_answers(
    source: str, outcome: str, step: str, detail: str, tmp_path: Path
) -> None:
    found = examine(PYTHONPATH=str(torch_package(tmp_path, source)))
    probe = probe_of(found)
    assert (probe.outcome, probe.step) == (outcome, step)
    assert detail in probe.detail and not probe.detail.endswith(".")
    assert not found.torch.is_read and found.torch.missing_kind == "failed"
    # What the files say is there all the same.
    assert found.torch_files.value.cuda == "13.0"


OF_OLD_RELEASES = {
    "its NCCL as one number, before 1.10": ("cuda.nccl.version = lambda: 2708", (2, 7, 8)),
    "the same from NCCL 2.9 on": ("cuda.nccl.version = lambda: 21003", (2, 10, 3)),
    "as a tuple without a suffix": ("cuda.nccl.version = lambda: (2, 14, 3)", (2, 14, 3)),
}


@POSIX
@pytest.mark.parametrize(("change", "nccl"), OF_OLD_RELEASES.values(), ids=OF_OLD_RELEASES)
def test_old_releases_of_torch_are_read(change: str, nccl: tuple[int, ...], tmp_path: Path) -> None:
    facts = examine(PYTHONPATH=str(torch_package(tmp_path, f"{CUDA_TORCH}\n    {change}"))).torch.value
    assert facts.nccl_version == nccl


@POSIX
@pytest.mark.parametrize(
    "change",
    [
        "cuda.nccl.version = lambda: 2.7",
        "del cuda.get_device_properties",
        "distributed = None",
        "properties.total_memory = None",
        "properties.major = 'nine'",
    ],
)
def test_a_torch_that_answers_in_another_form_is_not_called_broken(change: str, tmp_path: Path) -> None:
    found = examine(PYTHONPATH=str(torch_package(tmp_path, f"{CUDA_TORCH}\n    {change}")))
    assert probe_of(found).outcome == "unread"
    assert not found.torch.is_read and "gpudoctor does not know how this torch answers" in found.torch.reason


@POSIX
@pytest.mark.parametrize(
    ("source", "step"),
    [
        ("import threading; threading.Event().wait()", "import torch"),
        (
            CUDA_TORCH + "\n    import threading\n    cuda.is_available = threading.Event().wait",
            "torch.cuda.is_available()",
        ),
    ],
    ids=["import", "CUDA"],
)
def test_a_torch_that_hangs_is_ended_and_its_step_named(source: str, step: str, tmp_path: Path) -> None:
    folder = torch_package(tmp_path, source)
    found = examine(PYTHONPATH=str(folder), until=f'"doing": "{step}"'.encode())
    assert probe_of(found) == Probe("hung", step, "", 10.0)
    assert found.torch.missing_kind == "timeout"
    assert found.torch.reason == f"{step} did not return within 10 s"


@POSIX
def test_an_nvml_that_blocks_costs_only_torchs_reading_of_it(tmp_path: Path) -> None:
    source = CUDA_TORCH + "\n    import threading\n    cuda._device_count_nvml = threading.Event().wait"
    found = examine(PYTHONPATH=str(torch_package(tmp_path, source)), until=b"_device_count_nvml")
    assert probe_of(found).outcome == "answered"
    assert found.torch.value.nvml_device_count is None
    assert found.torch.value.cuda_available


# ---------------------------------------------------------------- interpreters that are none

NO_PYTHON = {
    "garbage": ("#!/bin/sh\necho 'Loading modules for you: cuda/13.0'\n", "garbled", "Loading modules for you"),
    "colours": ("#!/bin/sh\nprintf '\\033[31mred\\033[0m\\n'\n", "garbled", "red"),
    "silence": ("#!/bin/sh\nexit 0\n", "garbled", "nothing"),
    "a failure": ("#!/bin/sh\necho 'module: command not found' >&2\nexit 3\n", "crashed", "command not found"),
    "a failure with output": ("#!/bin/sh\necho usage: prog FILE\nexit 2\n", "garbled", "usage: prog FILE"),
    "a segfault": ("#!/bin/sh\nkill -SEGV $$\n", "crashed", "SIGSEGV"),
}


@POSIX
@pytest.mark.parametrize(("text", "outcome", "detail"), NO_PYTHON.values(), ids=NO_PYTHON)
def test_what_is_no_python_is_one_finding_and_not_two(text: str, outcome: str, detail: str, tmp_path: Path) -> None:
    found = examine(script(tmp_path, text))
    assert found.python_probe.value.outcome == outcome
    assert detail in found.python_probe.value.detail
    assert "\x1b" not in found.python_probe.value.detail
    assert not found.torch_probe.is_read, "the checks of torch are skipped: torch is not to blame"
    assert not found.torch_files.is_read and found.torch_files.missing_kind == "failed"


@POSIX
def test_a_search_path_that_hangs_is_named(tmp_path: Path) -> None:
    # An import hook that never answers stands for a dead network file system on sys.path.
    (tmp_path / "sitecustomize.py").write_text(
        "import sys, threading\n"
        "class Dead:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'torch': threading.Event().wait()\n"
        "sys.meta_path.insert(0, Dead())\n"
    )
    found = examine(torch=False, PYTHONPATH=str(tmp_path), until_of_files=b"search for torch")
    assert found.python_probe.value == Probe("hung", "the search for torch on sys.path", "", 10.0)
    assert found.packages.missing_kind == found.libraries.missing_kind == "timeout"
    assert found.python_version.is_read


def other_pythons() -> list[str]:
    root = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser() / "versions"
    return sorted(str(path) for path in root.glob("3.[89]*/bin/python")) + sorted(
        str(path) for path in root.glob("3.1[0-9]*/bin/python")
    )


def test_every_python_since_3_8_answers() -> None:
    pythons = other_pythons()
    require(pythons, "no other Python versions (pyenv)")
    for python in pythons:
        found = examine(python)
        assert found.python_probe.value.outcome == "answered", (python, found.python_probe)
        assert found.python_version.value.startswith("3.")


def test_a_python_too_old_still_says_its_version() -> None:
    old = Path("~/.pyenv/versions/2.7.18/bin/python").expanduser()
    require(old.exists(), "no Python 2.7 (pyenv)")
    found = examine(str(old))
    assert found.python_version.value == "2.7.18"
    assert found.python_probe.value.outcome == "crashed"


# ---------------------------------------------------------------- packages and libraries


def distribution(site: Path, folder: str, metadata: str = "") -> None:
    (site / folder).mkdir(parents=True)
    (site / folder / "METADATA").write_text(metadata, encoding="utf-8")


def test_packages_and_what_they_pin(tmp_path: Path) -> None:
    distribution(tmp_path, "nvidia_nccl_cu13-2.29.7.dist-info")
    distribution(tmp_path, "pynvml-11.5.3.dist-info")
    distribution(tmp_path, "torchvision-0.28.0+cu130.dist-info", "Name: torchvision\nRequires-Dist: torch==2.13.0\n\n")
    distribution(tmp_path, "torchaudio-2.5.1.dist-info", "Requires-Dist: torch (==2.5.1)\n")
    distribution(tmp_path, "xformers-0.0.30.dist-info", "Requires-Dist: torch >=2.4\nRequires-Dist: torch==2.*\n")
    distribution(tmp_path, "a_secret_project-1.0.dist-info")
    found = examine(torch=False, PYTHONPATH=str(tmp_path))
    packages = found.packages.value
    assert packages["nvidia-nccl-cu13"] == "2.29.7"
    assert packages["pynvml"] == "11.5.3" and packages["nvidia-ml-py"]
    assert "a-secret-project" not in packages
    assert found.torch_pins.value == {"torchvision": "2.13.0", "torchaudio": "2.5.1"}


def shared_library(path: Path, source: str) -> None:
    import shutil

    compiler = shutil.which("gcc") or shutil.which("cc")
    require(compiler, "no C compiler")
    path.parent.mkdir(parents=True, exist_ok=True)
    code = path.parent / "code.c"
    code.write_text(source, encoding="utf-8")
    subprocess.run([str(compiler), "-shared", "-fPIC", "-o", str(path), str(code)], check=True)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the loader of Linux")
def test_libraries_stand_in_the_order_of_the_loader(tmp_path: Path) -> None:
    site = torch_package(tmp_path / "site", CUDA_TORCH)
    bundled = site / "nvidia" / "nccl" / "lib" / "libnccl.so.2"
    shared_library(bundled, "int ncclGetVersion(int *version) { *version = 22907; return 0; }")
    (site / "nvidia" / "cudnn" / "lib").mkdir(parents=True)
    (site / "nvidia" / "cudnn" / "lib" / "libcudnn.so.9").touch()
    distribution(site, "nvidia_cudnn_cu13-9.19.0.56.dist-info")
    foreign = tmp_path / "hpc" / "lib"
    foreign.mkdir(parents=True)
    (foreign / "libnccl.so.2.18.1").touch()
    (foreign / "libnccl.so.2").symlink_to("libnccl.so.2.18.1")
    (foreign / "libcuda.so").touch()  # for the linker only: the loader looks for libcuda.so.1
    found = examine(torch=False, PYTHONPATH=str(site), LD_LIBRARY_PATH=f"/nowhere:{foreign}:{bundled.parent}")
    nccl = [library for library in found.libraries.value if library.name == "nccl"][:2]
    assert [(library.origin, library.version) for library in nccl] == [
        ("LD_LIBRARY_PATH", "2.18.1"),
        ("LD_LIBRARY_PATH", "2.29.7"),  # torch's own, named in the variable: the same file is listed once
    ]
    assert nccl[0].found_as == str(foreign / "libnccl.so.2")
    assert nccl[0].path == str(foreign / "libnccl.so.2.18.1")
    cudnn = next(library for library in found.libraries.value if library.name == "cudnn")
    assert (cudnn.origin, cudnn.version) == ("package", "9.19.0.56")
    assert not any(library.path.startswith(str(foreign)) for library in found.libraries.value if library.name == "cuda")


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the loader of Linux")
def test_a_libnccl_that_crashes_when_it_is_loaded_costs_only_its_version(tmp_path: Path) -> None:
    site = torch_package(tmp_path / "site", CUDA_TORCH)
    bundled = site / "nvidia" / "nccl" / "lib" / "libnccl.so.2"
    shared_library(bundled, "#include <stdlib.h>\n__attribute__((constructor)) static void end(void) { abort(); }")
    found = examine(torch=False, PYTHONPATH=str(site))
    assert found.python_probe.value.outcome == "answered"
    assert [(library.name, library.version) for library in found.libraries.value][:1] == [("nccl", "")]


# ---------------------------------------------------------------- whatever a worker says

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
KEYS = ["python", "doing", "raised", "complete", "facts", "packages", "torch_files", "libraries", "library_version"]
KEYS += ["torch_pins", "no_torch", "torch_broken", "no_libraries", "result", "done"]
LINE = st.one_of(
    st.binary(max_size=40),
    st.dictionaries(st.sampled_from(KEYS), JSON, max_size=4).map(lambda said: MARK + json.dumps(said).encode()),
)


def reply(output: bytes, return_code: int | None, timed_out: bool) -> ChildReply:
    return ChildReply("torch", output, "Traceback\nImportError: x", return_code, timed_out, False, 10.0, 4711)


REPLIES = st.builds(
    reply,
    st.lists(LINE, max_size=8).map(b"\n".join).map(lambda text: text + b"\n"),
    st.sampled_from([None, 0, 1, -11, -9]),
    st.booleans(),
)


@given(REPLIES, REPLIES)
def test_no_reply_makes_the_reading_raise(static: ChildReply, torch: ChildReply) -> None:
    found = assemble(ExamineWish(Interpreter("/usr/bin/python3", "--python")), static, torch)
    assert found.python_probe.is_read
    for name in ("torch", "torch_probe", "torch_files", "packages", "libraries"):
        reading = getattr(found, name)
        assert reading.is_read or reading.reason
    assert not found.torch.is_read or probe_of(found).outcome == "answered"


def test_signals_have_names() -> None:
    assert signal_name(11) == "SIGSEGV"


def test_workers_are_written_for_python_3_8() -> None:
    """Their syntax, even where no old Python is installed."""
    import ast

    files = sorted(WORKERS.glob("*.py"))
    assert len(files) >= 4
    for file in files:
        ast.parse(file.read_text(encoding="utf-8"), feature_version=(3, 8))
