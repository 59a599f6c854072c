"""Rules of containers that are started on the command line: K05 and K06."""

import re
from collections.abc import Iterator

from gpudoctor.lazy import lazy_re
from gpudoctor.lint import look, processes
from gpudoctor.lint.model import Invocation, LintJob, LintLaunch
from gpudoctor.lint.rule import LintFinding, rule
from gpudoctor.lint.rules.by_hand import words_of

_START = "torchrun --standalone --nproc-per-node=4 train.py\n"
_DOCKERS = ("docker", "podman", "nerdctl", "nvidia-docker")
_SWITCHES = (
    "-c",
    "-C",
    "-e",
    "-i",
    "-p",
    "-u",
    "-w",
    "--contain",
    "--containall",
    "--cleanenv",
    "--no-home",
    "--writable-tmpfs",
)
_SHARES = lazy_re(
    r"init_process_group|DistributedDataParallel|num_workers|multiprocessing|Accelerator\(|Trainer\(|spawn"
)
_ANSWERS = lazy_re(r"demo|infer|predict|generat|serv|\bapp\b|chat|eval|visual|export|detect|sample|quickstart|bench")
"""Names of programs that train nothing."""
_SHM = lazy_re(r"--shm-size|--ipc|/dev/shm")
_GPU = lazy_re(r"--(?:nv|rocm|nvccli|device)\b|/dev/(?:nvidia|kfd|dri)")
_AMD = lazy_re(r"rocm|hip|amd|miopen|mi\d{3}|xpu|hccl|npu", re.IGNORECASE)


@rule(
    "K05",
    title="A container that trains has enough of /dev/shm",
    severity="warning",
    source="docker run: --shm-size is 64 MiB unless it is given; PyTorch's loader workers and NCCL use it",
    leads_to=("shm-too-small",),
    bad=("docker run --gpus all image " + _START, "podman run --rm --device nvidia.com/gpu=all image " + _START),
    good=(
        "docker run --gpus all --shm-size=32g image " + _START,
        "docker run --gpus all --ipc=host image " + _START,
        "docker run --gpus 1 image python demo.py --prompt hello\n",
    ),
)
def container_without_shm(job: LintJob) -> Iterator[LintFinding]:
    """docker gives a container 64 MiB of shared memory. Loader workers hand batches over through it, and NCCL the data
    between GPUs without a direct link."""
    for outer in _docker_runs(job, _DOCKERS):
        if _SHM.search(words_of(outer)):
            continue
        yield LintFinding(
            span=outer.words[0].span,
            summary=f"{outer.program} run without --shm-size or --ipc=host: the container has 64 MiB of shared memory",
            happens="With loader workers: 'Bus error', or a worker is killed; NCCL: no space left on device.",
            fix="Add --shm-size=32g, or --ipc=host.",
        )


@rule(
    "K06",
    title="A container of singularity or apptainer sees the GPUs",
    source="apptainer(1): --nv binds the driver's libraries; without it there is none in the container",
    leads_to=("no-gpu-visible",),
    bad=("apptainer exec /images/cuda.sif " + _START, "singularity exec -B /data /images/cuda.sif " + _START),
    good=("apptainer exec --nv train.sif " + _START, "export APPTAINER_NV=1\napptainer exec train.sif " + _START),
)
def container_without_gpus(job: LintJob) -> Iterator[LintFinding]:
    """The driver's libraries are those of the host: the container gets them by --nv (--rocm for AMD)."""
    said: set[int] = set()
    for launch in job.launches:
        outer = next(
            (
                invocation
                for invocation in launch.invocation.within
                if invocation.program in ("singularity", "apptainer")
            ),
            None,
        )
        if outer is None or outer.span.start in said or processes.on_cpu(launch):
            continue
        settings = outer.settings.keys()
        by_variable = any(
            re.fullmatch(r"(?:SINGULARITY|APPTAINER)(?:ENV)?_(?:NV|ROCM|BIND|BINDPATH).*", name) for name in settings
        )
        if (
            by_variable
            or _may_hold_options(outer, launch.invocation.program)
            or _GPU.search(words_of(outer))
            or _AMD.search(job.text)
            or "module use" in job.text
        ):
            continue
        if (
            not re.search(r"--gres[= ]gpu|--gpus|cuda|nvidia|nccl|ngpus", job.text, re.IGNORECASE)
            and not job.facts.gpus_per_node
        ):
            continue
        said.add(outer.span.start)
        yield LintFinding(
            span=outer.words[0].span,
            severity=None if look.traits(launch).sets_ranks or launch.around else "warning",
            summary=f"{outer.program} {outer.words[1].shown} without --nv: there is no GPU inside the container",
            happens="torch.cuda.is_available() is False: the ranks fail at their first CUDA call, or train on the CPU.",
            fix=f"Write {outer.program} {outer.words[1].shown} --nv ... (--rocm for AMD's GPUs).",
        )


def _may_hold_options(outer: Invocation, program: str) -> bool:
    """Whether a word of singularity's may hold more options: a variable that is neither an option's value nor, before
    the program, the image."""
    words = outer.words[1:]
    for before, word, after in zip(words, words[1:], words[2:], strict=False):
        unknown = word.text is None and word.raw.startswith(("$", '"$'))
        is_value = before.shown.startswith("-") and "=" not in before.shown and before.shown not in _SWITCHES
        is_image = after.shown.rpartition("/")[2] == program
        if unknown and not is_value and not is_image:
            return True
    return False


def _is_demo(job: LintJob, launch: LintLaunch) -> bool:
    """One process of plain python, of which nothing says that it trains, or reads by workers."""
    if launch.launcher != "python" or launch.script is None or launch.around:
        return False
    name = launch.script.shown.rpartition("/")[2]
    beside = next((section.text for section in job.sections if name and section.name.rpartition("/")[2] == name), None)
    if beside is not None:
        return not _SHARES.search(beside)
    return _ANSWERS.search(name) is not None


def _docker_runs(job: LintJob, programs: tuple[str, ...]) -> Iterator[Invocation]:
    """Each `docker run` once in which several ranks are started that are to use GPUs."""
    said: set[int] = set()
    for launch in job.launches:
        outer = next((invocation for invocation in launch.invocation.within if invocation.program in programs), None)
        if outer is None or "run" not in [word.shown for word in outer.words[1:3]] or outer.span.start in said:
            continue
        if _is_demo(job, launch):
            continue
        if not processes.on_cpu(launch) and (processes.per_node(job, launch) or 2) > 1:
            said.add(outer.span.start)
            yield outer
