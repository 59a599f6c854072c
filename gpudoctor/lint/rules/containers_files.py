"""Rules of containers that files describe: K25 to K29."""

import re
from collections.abc import Iterator

from gpudoctor.knowledge.wording import counted
from gpudoctor.launcher import registry
from gpudoctor.lazy import lazy_re
from gpudoctor.lint import dockerfile, look
from gpudoctor.lint.model import LintJob, Manifest
from gpudoctor.lint.pods import containers, is_in
from gpudoctor.lint.quotes import without_documents
from gpudoctor.lint.rule import LintFinding, rule
from gpudoctor.lint.rules.manifest_values import of_kubernetes

_POD = (
    "apiVersion: v1\nkind: Pod\nmetadata: {{name: train}}\nspec:\n  containers:\n    - name: main\n"
    "      image: registry/i:1\n      command: [torchrun, --standalone, --nproc-per-node=4, train.py]\n"
    "      resources: {{{}: {{nvidia.com/gpu: 4}}}}\n      volumeMounts: [{{mountPath: /dev/shm, name: s}}]\n"
    "  volumes: [{{name: s, emptyDir: {{medium: Memory}}}}]\n"
)


@rule(
    "K25",
    title="GPUs of a container stand in its limits",
    source="Kubernetes' documentation, Schedule GPUs: in limits, or in both; validation: Limit must be set for non"
    " overcommitable resources",
    bad=(_POD.format("requests"), _POD.format("requests").replace("gpu: 4", "gpu: '4'")),
    good=(
        _POD.format("limits"),
        _POD.format("limits").replace("limits: {nvidia", "requests: {cpu: 8}, limits: {nvidia"),
    ),
)
def gpus_in_requests_alone(job: LintJob) -> Iterator[LintFinding]:
    """An extended resource cannot be overcommitted: a request without a limit of the same number is refused."""
    for manifest in of_kubernetes(job):
        for container in containers(manifest):
            for path, value in container.values.items():
                if path[:2] != ("resources", "requests") or "gpu" not in path[-1] or "/" not in path[-1]:
                    continue
                if ("resources", "limits", *path[2:]) not in container.values:
                    yield LintFinding(
                        span=value.span,
                        summary=f"{path[-1]} stands in requests, and not in limits",
                        happens="The API server refuses the pod: Limit must be set for non overcommitable resources.",
                        fix=f"Write it below limits: {path[-1]}: {value.value[:10]}.",
                    )


_COMPOSE = (
    "services:\n  node0:\n    image: train:1\n    ipc: host\n    environment:\n      NODE_RANK: '0'\n    command: bash"
    ' -c "torchrun --nnodes=2 --nproc_per_node=2 --node_rank={} --master_addr=node0 --master_port=29500 train.py"\n'
)
_PLAIN = lazy_re(r"(?<!\$)\$(?:\{(\w+)\}|([A-Za-z_]\w*))", re.ASCII)


@rule(
    "K26",
    title="A variable of the container is written $$NAME in a compose file",
    source="Compose specification, Interpolation: $NAME is filled in by compose from its environment; $$ is a dollar",
    bad=(_COMPOSE.format("$NODE_RANK"), _COMPOSE.format("${NODE_RANK}")),
    good=(_COMPOSE.format("$$NODE_RANK"), _COMPOSE.format("${NODE_RANK:-0}")),
)
def variable_filled_in_by_compose(job: LintJob) -> Iterator[LintFinding]:
    """compose fills variables in before a container exists: what `environment:` sets is not there yet."""
    for manifest in job.manifests:
        if manifest.kind != "Compose":
            continue
        for value in manifest.values:
            if len(value.path) < 3 or value.path[0] != "services" or value.path[2] not in ("command", "entrypoint"):
                continue
            own = _environment(manifest, value.path[1])
            match = next((match for match in _PLAIN.finditer(value.value) if (match[1] or match[2]) in own), None)
            if match is not None:
                name = match[1] or match[2]
                yield LintFinding(
                    span=value.span,
                    summary=f"compose fills {match[0]} in itself; {name} of environment: is the container's, and later",
                    happens=f"{match[0]} is empty, or what the shell has in which compose runs.",
                    fix=f"Write $${name}, and a shell: bash -c '... $${name} ...'.",
                )


def _environment(manifest: Manifest, service: str) -> set[str]:
    names = set()
    for value in manifest.values:
        if value.path[:3] == ("services", service, "environment") and len(value.path) == 4:
            names.add(value.value.partition("=")[0] if value.path[3].isdecimal() else value.path[3])
    return names


_DOCKERFILE = 'FROM train:1\nENTRYPOINT ["torchrun", "--standalone", "--nproc_per_node=4"]\nCMD {}\n'
_OF_SHELL = lazy_re(r'\[\s*"(?:/\S*/)?(?:ba|da|z)?sh"\s*,(?:\s*"-\w+"\s*,)*?\s*"-\w*c"\s*,\s*"((?:[^"\\]|\\.)*)"\s*\]')


@rule(
    "K27",
    title="CMD behind an ENTRYPOINT is a list",
    source="Dockerfile reference, Understand how CMD and ENTRYPOINT interact",
    bad=(
        _DOCKERFILE.format("train.py --lr 0.1"),
        'FROM train:1\nENTRYPOINT torchrun --standalone train.py\nCMD ["--lr", "0.1"]\n',
        'FROM train:1\nENTRYPOINT ["/bin/bash", "-c", "/entry.sh"]\nCMD ["torchrun", "--standalone", "train.py"]\n',
    ),
    good=(
        _DOCKERFILE.format('["train.py", "--lr", "0.1"]'),
        "FROM train:1\nCMD torchrun --standalone train.py\n",
        'FROM train:1\nENTRYPOINT ["bash", "-c", "exec \\"$0\\" \\"$@\\""]\nCMD ["torchrun", "train.py"]\n',
    ),
)
def command_behind_entrypoint(job: LintJob) -> Iterator[LintFinding]:
    """A CMD in its shell form becomes the words /bin/sh -c "..." behind a list of ENTRYPOINT; an ENTRYPOINT in its
    shell form takes no words at all."""
    for section in job.sections:
        if not dockerfile.looks_like_dockerfile(section.text):
            continue
        last: dict[str, re.Match[str]] = {}
        for match in dockerfile.INSTRUCTION.finditer(without_documents(section.text)):
            if match[1].upper() == "FROM":
                last = {}
            last[match[1].upper()] = match
        entry, command = last.get("ENTRYPOINT"), last.get("CMD")
        if entry is None or command is None or not command[2].strip():
            continue
        lists = [match[2].lstrip().startswith("[") for match in (entry, command)]
        at = command.start(1)
        if lists == [True, True]:
            text = _OF_SHELL.fullmatch(entry[2].strip())
            if text is not None and not re.search(r"\$(?:[@*0-9]|\{[@*0-9])", text[1]):
                yield LintFinding(
                    span=section.span(at, command.end()),
                    summary="what CMD holds are $0, $1 and so on of ENTRYPOINT's -c, which uses none of them",
                    happens="The container runs ENTRYPOINT's text without these words: they are never started.",
                    fix='Write the program alone: ENTRYPOINT ["/entry.sh"]; or end the text with exec "$0" "$@".',
                )
            continue
        yield LintFinding(
            span=section.span(at, command.end()),
            severity=None if lists[0] else "warning",
            summary="CMD in its shell form becomes /bin/sh -c ... behind the list of ENTRYPOINT"
            if lists[0]
            else "CMD is not handed to an ENTRYPOINT in its shell form",
            happens="ENTRYPOINT's program gets the words /bin/sh, -c and one long one: can't open file."
            if lists[0]
            else "The container starts without these words.",
            fix='Write both as lists: ENTRYPOINT ["...", "..."] and CMD ["...", "..."].',
        )


@rule(
    "K28",
    title="A container with an environment of its own is given MASTER_ADDR",
    source="apptainer(1): --cleanenv and --containall leave the host's variables outside; --env, APPTAINERENV_NAME",
    bad=(
        "export MASTER_ADDR=n0 MASTER_PORT=29500\nsrun --ntasks=8 apptainer exec --nv --cleanenv pt.sif python t.py\n",
        "export MASTER_ADDR=n0 MASTER_PORT=29500\nsrun --ntasks=8 singularity exec --nv -e pt.sif python train.py\n",
    ),
    good=(
        "export MASTER_ADDR=n0 MASTER_PORT=29500\nsrun --ntasks=8 apptainer exec --nv pt.sif python train.py\n",
        "export MASTER_ADDR=n0 MASTER_PORT=29500\nsrun --ntasks=8 apptainer exec --nv --cleanenv --env"
        " MASTER_ADDR=$MASTER_ADDR,MASTER_PORT=29500 pt.sif python train.py\n",
    ),
)
def variables_left_outside(job: LintJob) -> Iterator[LintFinding]:
    """Ranks that meet by MASTER_ADDR find none in a container that begins with an empty environment."""
    for launch in job.launches:
        outer = next((e for e in reversed(launch.invocation.within) if e.program in ("apptainer", "singularity")), None)
        setting = outer.settings.get("MASTER_ADDR") if outer is not None else None
        if (
            outer is None
            or setting is None
            or not setting.exported
            or launch.launcher not in ("srun", "mpirun", "python")
        ):
            continue
        words = [word.shown for word in outer.words]
        clean = next((word for word in words if word in ("--cleanenv", "-e", "--containall", "-C")), None)
        handed = any(re.match(r"--env(?:-file)?\b", word) for word in words)
        handed = handed or any(re.match(r"(?:APPTAINER|SINGULARITY)ENV_MASTER_ADDR", name) for name in outer.settings)
        if clean is not None and not handed:
            yield LintFinding(
                span=next(word.span for word in outer.words if word.shown == clean),
                summary=f"{clean} leaves MASTER_ADDR and MASTER_PORT outside of the container",
                happens="The ranks end: environment variable MASTER_ADDR expected, but not set.",
                fix=f"Leave {clean} out, or add --env MASTER_ADDR=$MASTER_ADDR,MASTER_PORT=$MASTER_PORT.",
            )


_TASK = (
    "name: sft\nnum_nodes: 2\nresources:\n  accelerators: A100:8\nrun: |\n  torchrun {}--nproc_per_node=8 train.py\n"
)


@rule(
    "K29",
    title="torchrun on the nodes of a task is told their number",
    source="torch/distributed/run.py: --nnodes is 1 unless it is given; SkyPilot's and dstack's documentation set none",
    bad=(_TASK.format(""), _TASK.format("").replace("num_nodes: 2", "num_nodes: 4")),
    good=(
        _TASK.format("--nnodes=$SKYPILOT_NUM_NODES --node_rank=$SKYPILOT_NODE_RANK --master_addr=$HEAD "),
        _TASK.format("").replace("num_nodes: 2", "num_nodes: 1"),
    ),
)
def task_without_nnodes(job: LintJob) -> Iterator[LintFinding]:
    """SkyPilot, dstack and others run the commands on each node: a torchrun without --nnodes is a world of its own."""
    for manifest in job.manifests:
        kind = registry.manifest_kinds().get(manifest.kind)
        path = kind.nodes if kind is not None else ""
        nodes = next((value for value in manifest.values if ".".join(value.path) == path), None)
        if nodes is None or not re.fullmatch(r"[0-9]{1,4}", nodes.value, re.ASCII) or int(nodes.value) < 2:
            continue
        for launch in job.launches:
            lone = launch.launcher in look.TORCHRUN and launch.option("nnodes", "standalone", "rdzv-endpoint") is None
            if lone and not launch.unread and not launch.around and is_in(launch, manifest):
                yield LintFinding(
                    span=nodes.span,
                    summary=f"{'.'.join(nodes.path)} is {nodes.value}, and torchrun in line"
                    f" {launch.invocation.span.line} is not told --nnodes",
                    happens=f"{counted(int(nodes.value), 'training')} that know nothing of each other.",
                    fix="Add --nnodes, --node_rank and --master_addr from the variables that the service sets.",
                )
