"""Rules of GPUs that a program is told by its options, or spawns ranks for, against those that it sees: G12, G13."""

import re
from collections.abc import Iterator

from gpudoctor.knowledge.wording import counted
from gpudoctor.lazy import lazy_re
from gpudoctor.lint import allocation, lightning, processes, spawning
from gpudoctor.lint.model import LintJob, LintLaunch
from gpudoctor.lint.python_code import codes_and_starts
from gpudoctor.lint.python_devices import seen
from gpudoctor.lint.rule import Example, LintFinding, rule
from gpudoctor.lint.told_options import told

_COUNTS = frozenset(("gpus", "num_gpus", "ngpus", "n_gpus", "n_gpu", "num_gpu", "ngpu", "gpu_num", "gpus_per_node",
                     "n_gpus_per_node", "num_gpus_per_node", "trainer.devices", "trainer.gpus", "devices",
                     "trainer.n_gpus_per_node", "num_devices"))  # fmt: skip
_NUMBERS = frozenset(("gpu", "gpu_id", "gpu_ids", "gpuids", "gpu_list", "device_ids", "device_id", "gpus", "devices",
                      "visible_gpus", "cuda_device", "device", "trainer.gpus", "trainer.devices"))  # fmt: skip
_SPAWN = (
    "#@ file train.py\nimport torch\nimport torch.distributed as dist\nimport torch.multiprocessing as mp\n"
    "def main(i):\n    torch.cuda.set_device(i)\n    dist.init_process_group('nccl', 'tcp://localhost:29500', rank=i,"
    " world_size={0})\nif __name__ == '__main__':\n    mp.spawn(main, nprocs={0})\n"
)
_LIST = lazy_re(r"\[?\s*((?:cuda:)?\d{1,2}(?:\s*,\s*\d{1,2})*)\s*,?\s*\]?", re.ASCII)


@rule(
    "G12",
    title="A program is told no more GPUs than it sees",
    source="CUDA Programming Guide: CUDA_VISIBLE_DEVICES, device ordinals; what a job and a container are given",
    leads_to=("duplicate-gpu",),
    bad=(
        "CUDA_VISIBLE_DEVICES=0,1 python train.py --num_gpus 4\n",
        "CUDA_VISIBLE_DEVICES=4,5 python train.py --gpu_ids 4,5\n",
        "#!/bin/bash\n#SBATCH --gres=gpu:1\n#SBATCH --time=02:00:00\nsrun python train.py trainer.devices=4\n",
        Example("python train.py --gpus 0,1,2,3\n", "gpus_per_node=2"),
    ),
    good=(
        "CUDA_VISIBLE_DEVICES=0,1 python train.py --num_gpus 2\n",
        "CUDA_VISIBLE_DEVICES=4,5 python train.py --gpu_ids 0,1\n",
        "CUDA_VISIBLE_DEVICES=4 python train.py --gpu_id 0 --num_workers 8\n",
        Example("python train.py --gpus 0,1\n", "gpus_per_node=2"),
    ),
)
def told_more_gpus(job: LintJob) -> Iterator[LintFinding]:
    """A program counts the GPUs that it is shown from 0, whatever their numbers in the machine are."""
    for launch in job.launches:
        if launch.launcher not in ("python", "srun", "mpirun") or lightning.is_lightning(job, launch):
            continue
        seen = _seen(job, launch)
        if not seen or processes.on_cpu(launch):
            continue
        for name, option in told(launch).items():
            match = _LIST.fullmatch(option.value or "")
            if match is None or name not in (*_COUNTS, *_NUMBERS):
                continue
            numbers = [int(text) for text in re.findall(r"\d+", match[1])]
            is_list = len(numbers) > 1 or "cuda:" in match[1] or "[" in (option.value or "")
            if (is_list and name in _NUMBERS) or name not in _COUNTS:
                beyond = max(numbers) >= seen
                said = f"names GPU {max(numbers)}"
            else:
                beyond = numbers[0] > seen and not is_list
                said = f"asks for {counted(numbers[0], 'GPU')}"
            if beyond:
                shown = processes.shown_gpus(launch)
                whence = f" (CUDA_VISIBLE_DEVICES={shown.value})" if shown is not None else ""
                yield LintFinding(
                    span=option.word.span,
                    summary=f"{option.written} {option.value} {said}, and the program sees"
                    f" {counted(seen, 'GPU')}{whence}",
                    happens="CUDA error: invalid device ordinal, or an assertion of the program's own.",
                    fix=f"Tell it {seen}, or numbers from 0 to {seen - 1}; or show it more GPUs.",
                )
                break


@rule(
    "G13",
    title="A program spawns no more ranks than it sees GPUs",
    source="CUDA: invalid device ordinal; NCCL: Duplicate GPU detected",
    leads_to=("duplicate-gpu",),
    bad=(
        Example(_SPAWN.format(4), "gpus_per_node=2"),
        _SPAWN.format(4) + "#@ every node\nCUDA_VISIBLE_DEVICES=0,1 python train.py\n",
    ),
    good=(
        Example(_SPAWN.format(4), "gpus_per_node=4"),
        _SPAWN.format(2) + "#@ every node\nCUDA_VISIBLE_DEVICES=0,1 python train.py\n",
        Example(_SPAWN.format(4).replace("nccl", "gloo"), "gpus_per_node=2"),
    ),
)
def spawns_more_than_gpus(job: LintJob) -> Iterator[LintFinding]:
    """Each spawned rank takes the GPU of its number; a number beyond the last GPU names none."""
    for code, starts in codes_and_starts(job):
        if "nccl" not in code.text or "gloo" in code.text:
            continue
        there = seen(job, code, starts)
        count = there.count if there is not None else None
        if count is None and len(starts) == 1:
            count = _seen(job, starts[0])
        for call in spawning.spawn_calls(code):
            ranks = spawning.processes(job, code, call, starts)
            if count and ranks is not None and ranks > count:
                yield LintFinding(
                    span=code.span(call.call),
                    summary=f"{counted(ranks, 'rank')} {'is' if ranks == 1 else 'are'} spawned, and"
                    f" {counted(count, 'GPU')} {'is' if count == 1 else 'are'} seen",
                    happens="CUDA error: invalid device ordinal; or NCCL's Duplicate GPU detected.",
                    fix="Spawn torch.cuda.device_count() ranks.",
                )


def _seen(job: LintJob, launch: LintLaunch) -> int | None:
    """GPUs that one process sees."""
    alone = allocation.sees_own_gpus_only(job, launch) if allocation.srun_of(launch) is not None else None
    return alone if alone is not None else processes.gpus(job, launch)
