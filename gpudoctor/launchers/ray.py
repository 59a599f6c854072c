"""Ray Train: TorchTrainer starts the workers, so that no torchrun is started inside.

`ray job submit [options] -- COMMAND`: dashboard/modules/job/cli.py of Ray 2.9 and later, of click: flags have a --no-
form, and no option may be shortened.
"""

import json
from collections.abc import Iterator

from gpudoctor.launch.parts import arguments, beside, is_module, job_name, target
from gpudoctor.launch.plan import Emission, EmittedFile, LaunchPlan, PasteBlock
from gpudoctor.launch.words import check, comment, line, of_node, prefixed, reasons
from gpudoctor.launcher.grammar import Grammar
from gpudoctor.launcher.traits import Form, LauncherTraits, ManifestKind

SUBMIT = """
    address= job-id= submission-id= runtime-env= runtime-env-json= working-dir= metadata-json= entrypoint-num-cpus=
    entrypoint-num-gpus= entrypoint-memory= entrypoint-resources= entrypoint-label-selector= no-wait verify= headers=
    log-style= log-color= verbose,-v
"""
RAY_PORT = 6379
"""Of the cluster's head, Ray's own default; training gets a free port of rank 0's node."""
DASHBOARD = "http://127.0.0.1:8265"
"""Where jobs are handed in on the head itself, Ray's default."""


def write(plan: LaunchPlan) -> Emission:
    """Commands that make a cluster of the nodes, the program that trains on it, the line that hands it in.

    Raises `CannotEmit`.
    """
    processes = plan.nodes[0].processes
    check(plan.program)
    file = f"{job_name(plan).replace('-', '_')}_with_ray.py"
    submit = [beside(plan.python, "ray"), "job", "submit", "--address", DASHBOARD, "--working-dir", ".", "--"]
    lines = [
        comment("When all nodes have joined (`ray status` shows their GPUs):"),
        line([*submit, plan.python, file]),
    ]
    blocks = [
        PasteBlock(f"on {node.name}, where no Ray cluster runs yet", _start(plan, rank), node=rank)
        for rank, node in enumerate(plan.nodes)
    ]
    blocks.append(PasteBlock(f"on {plan.nodes[0].name}, in the folder of the script", "\n".join(lines) + "\n", node=0))
    return Emission(
        blocks=tuple(blocks),
        files=(EmittedFile(file, "\n".join(_program(plan, processes)) + "\n"),),
        notes=(
            "Ray Train has made the process group and set RANK, LOCAL_RANK, WORLD_SIZE and MASTER_* when the script "
            "begins: guard its own call with `if not torch.distributed.is_initialized()`, and start no torchrun in it.",
            "The device is ray.train.torch.get_device(): Ray shows each worker one GPU, so that cuda:LOCAL_RANK is "
            "out of range on all but the first.",
        ),
    )


def _start(plan: LaunchPlan, rank: int) -> str:
    node = plan.nodes[rank]
    shown = tuple(variable for variable in of_node(plan, node) if variable.name == "CUDA_VISIBLE_DEVICES")
    ray = beside(plan.python, "ray")
    if rank == 0:
        words = [ray, "start", "--head", f"--node-ip-address={plan.master_address}", f"--port={RAY_PORT}"]
    else:
        address = f"[{plan.master_address}]" if ":" in plan.master_address else plan.master_address
        words = [ray, "start", f"--address={address}:{RAY_PORT}"]
    gpus = [f"--num-gpus={node.processes}"] if plan.accelerator == "cuda" else []
    return "\n".join([*reasons(shown), prefixed(shown, [*words, *gpus])]) + "\n"


def _program(plan: LaunchPlan, processes: int) -> Iterator[str]:
    has = "one GPU each" if plan.accelerator == "cuda" else "on CPUs"
    yield comment(f"Runs {target(plan)} on {plan.world_size} workers of a Ray cluster, {has}.")
    yield "import os"
    yield "import runpy"
    yield "import sys"
    yield ""
    yield "import ray"
    yield "from ray.train import ScalingConfig"
    yield "from ray.train.torch import TorchTrainer"
    yield ""
    yield comment("Workers stay in the job's folder, where the script lies, and do not go to one of results.")
    yield 'os.environ["RAY_CHDIR_TO_TRIAL_DIR"] = "0"'
    yield "ENVIRONMENT = {"
    yield '    "RAY_CHDIR_TO_TRIAL_DIR": "0",'
    for variable in plan.environment:
        if variable.reason:
            yield "\n".join(f"    {each}" for each in comment(variable.reason).splitlines())
        yield f"    {_literal(variable.name)}: {_literal(variable.value)},"
    yield "}"
    yield ""
    yield ""
    yield "def train(config):"
    yield f"    sys.argv = [{', '.join(map(_literal, (target(plan), *arguments(plan))))}]"
    call = "run_module" if is_module(plan) else "run_path"
    yield f'    runpy.{call}({_literal(target(plan))}, run_name="__main__")'
    yield ""
    yield ""
    yield 'ray.init(runtime_env={"env_vars": ENVIRONMENT})'
    yield "TorchTrainer("
    yield "    train,"
    yield "    scaling_config=ScalingConfig("
    yield f"        num_workers={plan.world_size},  # {len(plan.nodes)} nodes x {processes}"
    yield f"        use_gpu={plan.accelerator == 'cuda'},"
    resources = ({"CPU": plan.cpus_per_process} if plan.cpus_per_process else {}) | (
        {"GPU": 1} if plan.accelerator == "cuda" else {}
    )
    if resources:
        yield f"        resources_per_worker={json.dumps(resources)},"
    yield '        placement_strategy="PACK",  # neighbouring ranks on one node'
    yield "    ),"
    yield ").fit()"


def _literal(text: str) -> str:
    """A Python string in double quotes: what JSON writes in ASCII, Python reads alike up to surrogate pairs."""
    return json.dumps(text, ensure_ascii=True) if text.isascii() else repr(text)


LAUNCHER = LauncherTraits(
    name="ray",
    forms=(
        Form(
            launcher="other",
            programs=("ray job submit",),
            grammar=Grammar(SUBMIT, prefixes=False),
            takes_command=True,
        ),
    ),
    manifests=(ManifestKind(kind="RayJob", script="spec.entrypoint"),),
    package="ray",
    write=write,
    fixed="Ray Train is emitted for a fixed set of nodes",
    even="Ray Train starts the same number on every node",
    in_this_shell=False,
)
