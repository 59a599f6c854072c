"""SkyPilot: a task whose nodes start a static torchrun from SkyPilot's own variables.

SKYPILOT_NODE_IPS, SKYPILOT_NODE_RANK, SKYPILOT_NUM_NODES and SKYPILOT_NUM_GPUS_PER_NODE are set on every node
(SkyPilot's documentation, "Distributed multi-node jobs").
"""

import re
from collections.abc import Mapping
from typing import Any

from gpudoctor.emit.kubernetes import scalar, yaml
from gpudoctor.launch.parts import job_name, left_out, portable
from gpudoctor.launch.plan import Emission, EmittedFile, LaunchPlan, PasteBlock
from gpudoctor.launch.words import line
from gpudoctor.launcher.traits import LauncherTraits, ManifestKind

GPU_NAME = "GPU_NAME"


def write(plan: LaunchPlan) -> Emission:
    """The task's file and the line that starts it. Raises `CannotEmit`."""
    processes = plan.nodes[0].processes
    name = job_name(plan)
    file = f"{name}.sky.yaml"
    start = line(["sky", "launch", "--cluster", name, file])
    return Emission(
        blocks=(PasteBlock("where SkyPilot is installed", f"{start}\n", 0),),
        files=(EmittedFile(file, "\n".join(yaml(_task(plan, name, processes))) + "\n"),),
        notes=(
            *_about_gpus(plan, file),
            *left_out(plan.environment, "on a cloud's machines"),
        ),
    )


def _about_gpus(plan: LaunchPlan, file: str) -> tuple[str, ...]:
    if plan.accelerator != "cuda":
        return ()
    return (f"Put the GPU's name in place of {GPU_NAME} in {file}; `sky show-gpus` lists the names.",)


def _task(plan: LaunchPlan, name: str, processes: int) -> dict[str, Any]:
    model = f"The model is one of `sky show-gpus`; the number is that of each node ({processes} processes)."
    gpus = {"#": model, "accelerators": scalar(f"{GPU_NAME}:{processes}")}
    variables = {
        key: value
        for variable in portable(plan.environment)
        for key, value in ((f"# {variable.name}", variable.reason), (variable.name, scalar(variable.value)))
        if value
    }
    return {
        "#": f"A task of SkyPilot: {len(plan.nodes)} x {processes} processes. Start: sky launch FILE",
        "name": name,
        "num_nodes": len(plan.nodes),
        **({"resources": gpus} if plan.accelerator == "cuda" else {}),
        "# workdir": "This folder is copied to every node and is the working directory there.",
        "workdir": ".",
        **({"envs": variables} if variables else {}),
        "# run": "Static rendezvous: the first of SKYPILOT_NODE_IPS is the node of rank 0, and its address needs no "
        "resolver. c10d would need the head to recognise itself by that address.",
        "run": "\n  ".join(("|", *_script(plan, processes))),
    }


def _script(plan: LaunchPlan, processes: int) -> tuple[str, ...]:
    number = '"$SKYPILOT_NUM_GPUS_PER_NODE"' if plan.accelerator == "cuda" else str(processes)
    return (
        'head_address=$(printf "%s\\n" "$SKYPILOT_NODE_IPS" | head -n 1)',
        f'torchrun --nnodes="$SKYPILOT_NUM_NODES" --nproc-per-node={number} '
        f'--node-rank="$SKYPILOT_NODE_RANK" --master-addr="$head_address" --master-port={plan.master_port} '
        + line(plan.program),
    )


ACCELERATORS = "resources.accelerators"


def gpus_of_task(values: Mapping[str, str]) -> int | None:
    """`accelerators: A100:8`, or a mapping `{A100: 8}`; one where no number is told. Of several candidates no one."""
    told = [(path, value) for path, value in values.items() if path.startswith(ACCELERATORS)]
    if len(told) != 1 or any(".any_of." in path or ".ordered." in path for path in values):
        return None
    path, value = told[0]
    number = re.fullmatch(r"[A-Za-z][\w.-]*(?::(\d{1,2}))?" if path == ACCELERATORS else r"(\d{1,2})", value, re.ASCII)
    return int(number[1] or 1) if number is not None else None


LAUNCHER = LauncherTraits(
    name="skypilot",
    manifests=(
        ManifestKind(
            kind="SkyPilot",
            looks=(r"run:(?:[ \t]|$)", "(?:resources|num_nodes|workdir|setup|file_mounts):"),
            script="run",
            variables="envs",
            nodes="num_nodes",
            gpus=gpus_of_task,
            sets={"SKYPILOT_NUM_NODES": "nodes", "SKYPILOT_NUM_GPUS_PER_NODE": "gpus"},
        ),
    ),
    package="skypilot",
    write=write,
    fixed="SkyPilot is emitted for a fixed set of nodes",
    even="SkyPilot starts the same number on every node",
    scheduler="cloud",
    in_this_shell=False,
)
