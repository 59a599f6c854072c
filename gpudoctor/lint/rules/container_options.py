"""Rules of docker's options that do not go together, or mean something else than they seem to: K45 to K47, K90."""

import re
from collections.abc import Iterator

from gpudoctor.lazy import lazy_re
from gpudoctor.lint import processes
from gpudoctor.lint.model import Invocation, LintJob, LintLaunch, Word
from gpudoctor.lint.pods import container_of
from gpudoctor.lint.processes import counted_entries
from gpudoctor.lint.rule import LintFinding, rule

_START = "torchrun --standalone --nproc-per-node=2 train.py\n"
_DOCKERS = ("docker", "podman", "nerdctl", "nvidia-docker")
_EXCLUDE = (
    (r"--rm(?:=true)?", r"--restart(?:=(?!no\b)\S+)?", "Conflicting options: cannot specify both --restart and --rm"),
    (r"-d|--detach|-d[a-z]+", r"(?:-a|--attach)(?:=\S+)?", "Conflicting options: --attach and --detach"),
    (r"--health-cmd(?:=.*)?", r"--no-healthcheck", "--no-healthcheck conflicts with --health-* options"),
    (r"--network=host|--net=host", r"--network-alias(?:=.*)?", "conflicting options: network-scoped aliases and host"),
    (r"--network=host|--net=host", r"--link(?:=.*)?", "conflicting options: host networking can't be used with links"),
    (r"--ipc=container:\S+", r"--shm-size(?:=.*)?", "the size of /dev/shm is the other container's"),
)  # fmt: skip
"""docker 28, cli/command/container/opts.go and daemon/container_operations.go."""


def runs(job: LintJob) -> Iterator[tuple[Invocation, tuple[Word, ...]]]:
    """Each `docker run` of the text, with its words up to the start that stands in it."""
    for invocation in job.invocations:
        words = [word.shown for word in invocation.words[1:3]]
        if invocation.program in _DOCKERS and {"run", "create"} & {*words}:
            yield invocation, invocation.words[1:]


def _pairs(words: tuple[Word, ...]) -> list[tuple[str, Word]]:
    """Words as OPTION=VALUE, where the value stands by itself too."""
    joined = []
    for index, word in enumerate(words):
        after = words[index + 1].shown if index + 1 < len(words) else ""
        alone = word.shown in (
            "--network",
            "--net",
            "--restart",
            "--shm-size",
            "--gpus",
            "--ipc",
            "-e",
            "--env",
            "--health-cmd",
        )
        joined.append((f"{word.shown}={after}" if alone else word.shown, word))
    return joined


def _before_image(words: tuple[Word, ...]) -> tuple[Word, ...]:
    """The options: up to the first word that is a launcher's or a shell's name."""
    for index, word in enumerate(words):
        if re.fullmatch(
            r"(?:\S*/)?(?:torchrun|python[\d.]*|accelerate|deepspeed|bash|sh|mpirun|horovodrun)", word.shown
        ):
            return words[:index]
    return words


@rule(
    "K45",
    title="docker's options go together",
    source="docker 28, cli/command/container/opts.go: conflicting options",
    bad=(
        "docker run --rm --restart=always --gpus all --ipc=host image " + _START,
        "docker run --restart unless-stopped --rm --gpus all --ipc=host image " + _START,
    ),
    good=(
        "docker run --rm --restart=no --gpus all --ipc=host image " + _START,
        "docker run -d --restart=always --gpus all --ipc=host image " + _START,
    ),
)
def docker_options_that_exclude(job: LintJob) -> Iterator[LintFinding]:
    """docker looks at its options before it makes a container, and refuses pairs that mean opposite things."""
    for _, words in runs(job):
        pairs = _pairs(_before_image(words))
        for one, other, says in _EXCLUDE:
            first = next((word for text, word in pairs if re.fullmatch(one, text)), None)
            second = next((word for text, word in pairs if re.fullmatch(other, text)), None)
            if first is not None and second is not None and first is not second:
                yield LintFinding(
                    span=second.span,
                    summary=f"{first.shown} and {second.shown} exclude each other",
                    happens=f"docker refuses: {says}.",
                    fix=f"Take {second.shown} or {first.shown} away.",
                )


@rule(
    "K46",
    title="--shm-size has a unit",
    source="docker run: a number without a unit is bytes (b, k, m, g)",
    leads_to=("shm-too-small",),
    bad=("docker run --gpus all --shm-size=16 image " + _START, "docker run --gpus all --shm-size 64m image " + _START),
    good=(
        "docker run --gpus all --shm-size=16g image " + _START,
        "docker run --gpus all --shm-size 17179869184 image " + _START,
    ),
)
def shared_memory_in_bytes(job: LintJob) -> Iterator[LintFinding]:
    """--shm-size=16 is sixteen bytes. 64m is what a container has without the option."""
    units = {"": 1, "b": 1, "k": 1024, "m": 1024**2, "g": 1024**3, "t": 1024**4}
    for _, words in runs(job):
        for text, word in _pairs(_before_image(words)):
            match = re.fullmatch(r"--shm-size=(\d+(?:\.\d+)?)([bkmgt]?)(?:i?b)?", text.lower())
            if match is None or float(match[1]) * units[match[2]] > 64 * 1024**2:
                continue
            yield LintFinding(
                span=word.span,
                summary=f"{text} is {'bytes' if not match[2] else 'no more than a container has by itself (64 MiB)'}",
                happens="/dev/shm is too small for loader workers and NCCL: 'Bus error', or no space left on device.",
                fix="Write --shm-size=16g, or --ipc=host.",
            )


_FOUR = (
    "apiVersion: v1\nkind: Pod\nmetadata: {name: t}\nspec:\n  restartPolicy: Never\n  containers:\n    - name: main\n"
    "      image: registry/image:tag\n      command: [torchrun, --standalone, --nproc-per-node=4, train.py]\n"
    "      env: [{name: CUDA_VISIBLE_DEVICES, value: 'SHOWN'}]\n      resources: {limits: {nvidia.com/gpu: 4}}\n"
    "      volumeMounts: [{name: shm, mountPath: /dev/shm}]\n  volumes: [{name: shm, emptyDir: {medium: Memory}}]\n"
)


@rule(
    "K47",
    title="GPUs of a container are counted from 0 in it",
    source="NVIDIA container toolkit: the devices that are given are numbered from 0 inside of the container",
    leads_to=("no-gpu-visible",),
    bad=(
        "docker run --gpus '\"device=4,5\"' --ipc=host -e CUDA_VISIBLE_DEVICES=4,5 image " + _START,
        "docker run --gpus '\"device=2,3\"' --ipc=host image bash -c 'CUDA_VISIBLE_DEVICES=2,3 "
        + _START.strip()
        + "'\n",
        _FOUR.replace("SHOWN", "4,5,6,7"),
    ),
    good=(
        "docker run --gpus '\"device=4,5\"' --ipc=host -e CUDA_VISIBLE_DEVICES=0,1 image " + _START,
        "docker run --gpus all --ipc=host -e CUDA_VISIBLE_DEVICES=4,5 image " + _START,
        _FOUR.replace("SHOWN", "0,1,2,3"),
    ),
)
def numbers_of_the_host(job: LintJob) -> Iterator[LintFinding]:
    """--gpus '"device=4,5"' puts two GPUs into the container, and they are 0 and 1 there. CUDA_VISIBLE_DEVICES=4,5 then
    leaves none of them."""
    for launch in job.launches:
        outer = next((outer for outer in launch.invocation.within if outer.program in _DOCKERS), None)
        given = _devices(outer) if outer is not None else _of_pod(job, launch)
        if not given:
            continue
        told = _told(outer, launch)
        if told is None:
            continue
        value, word = told
        numbers = [entry.number for entry in counted_entries(value) if entry.form == "ordinal"]
        if numbers and max(numbers) >= given:
            yield LintFinding(
                span=word.span,
                summary=f"CUDA_VISIBLE_DEVICES={value} in a container that is given {given} GPUs, which are 0 to"
                f" {given - 1} in it",
                happens="CUDA stops at the first number that is not there: the ranks see fewer GPUs, or none.",
                fix=f"Take CUDA_VISIBLE_DEVICES away, or write {','.join(map(str, range(given)))}.",
            )


def _of_pod(job: LintJob, launch: LintLaunch) -> int:
    """GPUs that a pod's container is limited to, or that a compose service reserves."""
    container = container_of(job, launch)
    given = container.gpus if container is not None else None
    return given or (processes.given_gpus(job, launch) if launch.invocation.manifest_path else 0) or 0


def _devices(outer: Invocation) -> int:
    for text, _ in _pairs(_before_image(outer.words[1:])):
        match = re.fullmatch(r"--gpus=[\"']*device=([^\"']+)[\"']*", text)
        if match is not None:
            return len(match[1].split(","))
    return 0


def _told(outer: Invocation | None, launch: LintLaunch) -> tuple[str, Word] | None:
    for text, word in _pairs(_before_image(outer.words[1:])) if outer is not None else ():
        match = re.fullmatch(r"(?:-e|--env)=?[\"']?CUDA_VISIBLE_DEVICES=([\d,]+)[\"']?", text)
        if match is not None:
            return match[1], word
    setting = launch.invocation.settings.get("CUDA_VISIBLE_DEVICES")
    before = outer.settings.get("CUDA_VISIBLE_DEVICES") if outer is not None else None
    if setting is not None and setting.word.text and (before is None or before.word is not setting.word):
        return setting.word.text, setting.word
    return None


_WORKFLOW = (
    "name: ddp\non: [push]\njobs:\n  smoke:\n    runs-on: {}\n    steps:\n      - run: |\n"
    "          torchrun --standalone --nproc-per-node=2 smoke.py --backend {}\n"
)
_HOSTED = lazy_re(r"(?:ubuntu|windows|macos)-(?:latest|[\d.]+)(?:-(?:arm|xlarge|large))?")
_WANTS_GPU = lazy_re(r"(?:^|[\s=])(?:nccl|cuda(?::\d)?|--multi_gpu|--gpus)\b")


@rule(
    "K48",
    title="A workflow that needs GPUs runs where there are some",
    source="GitHub's documentation, GitHub-hosted runners: the standard runners have no GPU",
    leads_to=("no-gpu-visible",),
    bad=(_WORKFLOW.format("ubuntu-latest", "nccl"), _WORKFLOW.format("ubuntu-22.04", "nccl --device cuda")),
    good=(_WORKFLOW.format("[self-hosted, gpu]", "nccl"), _WORKFLOW.format("ubuntu-latest", "gloo")),
)
def workflow_without_gpus(job: LintJob) -> Iterator[LintFinding]:
    """ubuntu-latest and its likes are virtual machines without a GPU: nccl and cuda find none there."""
    for manifest in job.manifests:
        runners = {value.path[1]: value for value in manifest.values if value.path[:1] == ("jobs",)
                   and value.path[2:] == ("runs-on",)}  # fmt: skip
        for launch in job.launches:
            path = launch.invocation.manifest_path
            runner = runners.get(path[1]) if len(path) > 1 and path[0] == "jobs" else None
            words = " ".join(word.shown for word in launch.invocation.words)
            if runner is not None and _HOSTED.fullmatch(runner.value) and _WANTS_GPU.search(words):
                yield LintFinding(
                    span=runner.span,
                    summary=f"{runner.value} has no GPU, and {launch.invocation.program} is told"
                    f" {(_WANTS_GPU.search(words) or [''])[0].strip(' =')}",
                    happens="No CUDA GPUs are available: the ranks fail when they join or move to a device.",
                    fix="Run it on a self-hosted or a GPU runner, or with gloo on the CPU.",
                )


@rule(
    "K90",
    title="docker run -e NAME=value is one word",
    source="docker run(1): the word behind -e is NAME or NAME=value, and the first word that is no option is the image",
    leads_to=("program-error",),
    bad=(
        "docker run --gpus all --ipc=host -e NCCL_SOCKET_IFNAME = eth0 image " + _START,
        "docker run --gpus all --ipc=host -e NCCL_SOCKET_IFNAME =eth0 image " + _START,
    ),
    good=(
        "docker run --gpus all --ipc=host -e NCCL_SOCKET_IFNAME=eth0 -e HOME image " + _START,
        "docker run --gpus all --ipc=host --env NCCL_SOCKET_IFNAME image " + _START,
    ),
)
def blanks_around_the_sign(job: LintJob) -> Iterator[LintFinding]:
    """Where a blank stands in front of the sign, -e has the name alone, and the next word is taken for the image."""
    for _, words in runs(job):
        for option, name, rest in zip(words, words[1:], words[2:], strict=False):
            if option.shown in ("-e", "--env") and rest.shown.startswith("=") and re.fullmatch(r"\w+", name.shown):
                yield LintFinding(
                    span=rest.span,
                    summary=f"a blank stands between {name.shown} and its value: {rest.shown!r} is taken for the image",
                    happens="docker: invalid reference format.",
                    fix=f"Write {option.shown} {name.shown}=value, without blanks.",
                )
