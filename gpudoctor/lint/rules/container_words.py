"""Rules of where a container's options end and its command begins: K72."""

import re
from collections.abc import Iterator

from gpudoctor.lint.model import LintJob
from gpudoctor.lint.rule import LintFinding, rule
from gpudoctor.lint.shell.container_grammars import DOCKER_EXEC, DOCKER_RUN, SINGULARITY
from gpudoctor.lint.shell.wrappers import container_options

_START = "torchrun --standalone --nproc_per_node=2 train.py\n"
_OWN = frozenset(
    "gpus shm-size ulimit ipc runtime rm network net volume mount name init detach device env-file pids-limit".split()  # noqa: SIM905
)
"""Options of docker that an image's own program hardly has."""


@rule(
    "K72",
    title="A container's options stand before its image",
    source="docker/cli 29, container/run.go: SetInterspersed(false); apptainer-exec(1): the first word behind the"
    " image runs; pytorch/serve#1726",
    bad=(
        "docker run registry/train:9 --gpus all --shm-size=16g -v /data:/data " + _START,
        "singularity exec pt.sif --nv -B /scratch:/scratch " + _START,
        "srun apptainer exec pt.sif --nv " + _START,
    ),
    good=(
        "docker run --gpus all --shm-size=16g -v /data:/data registry/train:9 " + _START,
        "singularity exec --nv -B /scratch:/scratch pt.sif " + _START,
        "docker run --gpus all --ipc=host vllm/vllm-openai:v0.9.2 --model m --tensor-parallel-size 2\n",
    ),
)
def option_behind_the_image(job: LintJob) -> Iterator[LintFinding]:
    """What stands behind the image is the command that runs in the container, or the arguments of the image's own."""
    for invocation in job.invocations:
        docker = invocation.program in ("docker", "podman", "nerdctl", "nvidia-docker")
        if not docker and invocation.program not in ("singularity", "apptainer"):
            continue
        words = invocation.words
        verb = next((index for index, word in enumerate(words[1:4], 1) if word.shown in ("run", "exec")), None)
        if verb is None:
            continue
        execs = words[verb].shown == "exec"
        grammar = SINGULARITY if not docker else DOCKER_EXEC if execs else DOCKER_RUN
        options, image = container_options(words, verb + 1, grammar)
        behind = words[image + 1] if image + 1 < len(words) else None
        if behind is None or not all(option.known for option in options) or not behind.shown.startswith("-"):
            continue
        if re.fullmatch(r"-{1,2}", behind.shown):
            continue
        read, _ = grammar.one(words, image + 1)
        if not read[0].known or not (read[0].name in _OWN or (execs and not docker)):
            continue
        yield LintFinding(
            span=behind.span,
            summary=f"{behind.shown} stands behind {words[image].shown}, so that it is the container's command and no"
            f" option of {invocation.program}",
            happens=f'The container does not start: exec: "{behind.shown.partition("=")[0]}": executable file not found'
            " in $PATH; or the image's program gets a word that it does not know.",
            fix=f"Write all options of {invocation.program} before {words[image].shown}.",
        )
