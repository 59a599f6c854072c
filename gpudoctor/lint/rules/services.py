"""Rules of trainings that a service starts: J05, J06; of mpirun as root: M06; of notebooks, loops, Ray: T29 to T31."""

import ast
import re
from collections.abc import Iterator

from gpudoctor.knowledge.wording import counted
from gpudoctor.lint import look
from gpudoctor.lint.model import LintJob, LintLaunch
from gpudoctor.lint.program_arguments import decided_number
from gpudoctor.lint.python_code import FUNCTIONS, PythonCode, argument, codes, codes_and_starts, constant
from gpudoctor.lint.rule import Example, LintFinding, rule
from gpudoctor.lint.told_options import told

_ESTIMATOR = (
    "from sagemaker.pytorch import PyTorch\n"
    "PyTorch(entry_point='train.py', instance_count={}, instance_type='{}'{}).fit()\n"
)
_GPUS = {
    "p3.8xlarge": 4, "p3.16xlarge": 8, "p3dn.24xlarge": 8, "p4d.24xlarge": 8, "p4de.24xlarge": 8, "p5.48xlarge": 8,
    "p5e.48xlarge": 8, "p5en.48xlarge": 8, "g4dn.12xlarge": 4, "g4dn.metal": 8, "g5.12xlarge": 4, "g5.24xlarge": 4,
    "g5.48xlarge": 8, "g6.12xlarge": 4, "g6.24xlarge": 4, "g6.48xlarge": 8, "g6e.12xlarge": 4, "g6e.24xlarge": 4,
    "g6e.48xlarge": 8, "p2.8xlarge": 8, "p2.16xlarge": 16, "p3.2xlarge": 1, "g5.xlarge": 1, "g5.2xlarge": 1,
    "g5.4xlarge": 1, "g4dn.xlarge": 1, "g4dn.2xlarge": 1, "g6.xlarge": 1, "g6.2xlarge": 1,
}  # fmt: skip
"""EC2's instance types, accelerated computing."""


@rule(
    "J05",
    title="An estimator on several GPUs is told how its ranks are started",
    severity="warning",
    source="SageMaker's documentation, distribution of estimators: without it one process an instance",
    bad=(
        _ESTIMATOR.format(2, "ml.p4d.24xlarge", ""),
        _ESTIMATOR.format(1, "ml.p3.16xlarge", ", distribution={'mpi': {'enabled': True, 'processes_per_host': 1}}"),
    ),
    good=(
        _ESTIMATOR.format(2, "ml.p4d.24xlarge", ", distribution={'torch_distributed': {'enabled': True}}"),
        _ESTIMATOR.format(1, "ml.g5.xlarge", ""),
    ),
)
def estimator_without_distribution(job: LintJob) -> Iterator[LintFinding]:
    """SageMaker starts the entry point once on each instance, by plain python, unless distribution says more."""
    for code in codes(job):
        for call in code.calls:
            name = code.name(call.func)
            if not name.startswith("sagemaker.") or name.rpartition(".")[2] not in ("PyTorch", "HuggingFace"):
                continue
            kind = constant(argument(call, "instance_type"))
            gpus = _GPUS.get(kind.removeprefix("ml.")) if isinstance(kind, str) else None
            count = decided_number(code, argument(call, "instance_count"), None)
            given = argument(call, "distribution")
            if any(keyword.arg is None for keyword in call.keywords):
                continue
            if given is None and ((count or 1) > 1 or (gpus or 1) > 1):
                where = f"{counted(count or 1, 'instance')}" + (f" of {counted(gpus, 'GPU')}" if gpus else "")
                yield LintFinding(
                    span=code.span(call),
                    summary=f"no distribution is told for {where}: the entry point is started once on each instance",
                    happens="Each instance trains by itself on one GPU, unless the program starts its ranks alone.",
                    fix="Write distribution={'torch_distributed': {'enabled': True}}.",
                )
                continue
            per_node = _processes(constant(given))
            if per_node is not None and gpus is not None and per_node != gpus:
                yield LintFinding(
                    span=code.span(given) if given is not None else code.span(call),
                    severity="error" if per_node > gpus else None,
                    summary=f"processes_per_host is {per_node}, and {kind} has {counted(gpus, 'GPU')}",
                    happens="Ranks without a GPU fail: invalid device ordinal." if per_node > gpus else "GPUs idle.",
                    fix=f"Write 'processes_per_host': {gpus}.",
                )


def _processes(value: object) -> int | None:
    mpi = value.get("mpi") if isinstance(value, dict) else None
    told_each = mpi.get("processes_per_host") if isinstance(mpi, dict) else None
    return told_each if type(told_each) is int else None


_RAY = "from ray.train import ScalingConfig\nfrom ray.train.torch import TorchTrainer\n"


@rule(
    "J06",
    title="Ray's cluster has as many GPUs as its workers take",
    needs="facts",
    source="Ray 2.40, train/ScalingConfig: a GPU for each worker; the trial waits for its resources",
    bad=(
        Example(_RAY + "TorchTrainer(f, scaling_config=ScalingConfig(num_workers=8, use_gpu=True)).fit()\n",
                "nodes=1,gpus_per_node=4"),
        Example(_RAY + "TorchTrainer(f, scaling_config=ScalingConfig(num_workers=2, use_gpu=True,"
                " resources_per_worker={'GPU': 4})).fit()\n", "nodes=1,gpus_per_node=4"),
    ),
    good=(
        Example(_RAY + "TorchTrainer(f, scaling_config=ScalingConfig(num_workers=8, use_gpu=True)).fit()\n",
                "nodes=2,gpus_per_node=4"),
        _RAY + "TorchTrainer(f, scaling_config=ScalingConfig(num_workers=8, use_gpu=True)).fit()\n",
    ),
)  # fmt: skip
def ray_cluster_too_small(job: LintJob) -> Iterator[LintFinding]:
    """Workers whose GPU is nowhere are never placed, and the others wait for them."""
    if job.facts.gpus_per_node is None:
        return
    there = job.facts.gpus_per_node * (job.facts.nodes or 1)
    for code, starts in codes_and_starts(job):
        start = starts[0] if len(starts) == 1 else None
        for call in code.calls:
            if not code.name(call.func).endswith("ScalingConfig") or constant(argument(call, "use_gpu")) is not True:
                continue
            workers = decided_number(code, argument(call, "num_workers"), start)
            asked = constant(argument(call, "resources_per_worker"))
            per_worker = asked.get("GPU", 1) if isinstance(asked, dict) else 1
            if workers is not None and isinstance(per_worker, (int, float)) and workers * per_worker > there:
                yield LintFinding(
                    span=code.span(call),
                    summary=f"{counted(workers, 'worker')} take {workers * per_worker:g} GPUs,"
                    f" and the cluster has {there}",
                    happens="The trial stays pending for ever, with the advice to add nodes.",
                    fix=f"Ask for {int(there // max(per_worker, 1)) or 1} workers, or add nodes.",
                )


_MPIJOB = (
    "apiVersion: kubeflow.org/v2beta1\nkind: MPIJob\nmetadata: {{name: train}}\nspec:\n  slotsPerWorker: 2\n"
    "  mpiReplicaSpecs:\n    Launcher:\n      replicas: 1\n      template:\n        spec:\n          containers:\n"
    "          - name: mpi\n            image: registry/i:1\n"
    "            command: [mpirun, {}-np, '4', python, train.py]\n"
    "    Worker:\n      replicas: 2\n      template:\n        spec:\n          containers:\n          - name: mpi\n"
    "            image: registry/i:1\n            resources: {{limits: {{nvidia.com/gpu: 2}}}}\n"
)


@rule(
    "M06",
    title="mpirun in a container is allowed to run as root",
    severity="warning",
    source="Open MPI: mpirun has detected an attempt to run as root; --allow-run-as-root",
    bad=(
        _MPIJOB.format("").replace("registry/i:1", "horovod/horovod:latest"),
        "docker run --gpus all --ipc=host --network=host train:1 mpirun -np 4 -H localhost:4 --bind-to none python"
        " t.py\n",
    ),
    good=(
        _MPIJOB.format("--allow-run-as-root, "),
        "docker run --gpus all --ipc=host --network=host --user 1000 train:1 mpirun -np 4 -H localhost:4 --bind-to none"
        " python t.py\n",
    ),
)
def mpirun_as_root(job: LintJob) -> Iterator[LintFinding]:
    """A container's user is root unless something says otherwise, and Open MPI's mpirun refuses root."""
    for launch in job.launches:
        mpi = (
            launch if launch.launcher == "mpirun" else next((e for e in launch.around if e.launcher == "mpirun"), None)
        )
        outer = next(
            (invocation for invocation in launch.invocation.within if invocation.program in ("docker", "podman")), None
        )
        if mpi is None or mpi.option("allow-run-as-root") is not None:
            continue
        path = launch.invocation.manifest_path
        around = next((manifest for manifest in job.manifests if manifest.kind == "MPIJob"), None) if path else None
        if outer is None and around is None:
            continue
        words = " ".join(word.shown for word in outer.words) if outer is not None else ""
        named = " ".join(f"{'.'.join(v.path)} {v.value}" for v in around.values) if around is not None else ""
        if re.search(r"--user\b|\s-u\s|--userns|ALLOW_RUN_AS_ROOT|allow-run-as-root", words + job.text):
            continue
        if re.search(
            r"runAsUser|runAsNonRoot|sshAuthMountPath|mpiImplementation (?:Intel|MPICH)|mpi-pi|mpioperator", named
        ):
            continue
        if around is not None and "horovod" not in job.text and "nvcr.io" not in job.text:
            continue  # an image that names its own user is as usual there
        yield LintFinding(
            span=look.head_span(mpi),
            summary="mpirun is started as root, the user of a container that names no other, without"
            " --allow-run-as-root",
            happens="Open MPI ends at once: mpirun has detected an attempt to run as root.",
            fix="Add --allow-run-as-root, or run as another user.",
        )


@rule(
    "T30",
    title="Ranks that a loop starts run beside each other",
    source="torch.distributed: init_process_group waits for the whole world; a command without & is waited for",
    bad=(
        "for i in 0 1 2 3; do\n  python train.py --rank $i --world_size 4 --dist_url tcp://127.0.0.1:29500\ndone\n",
        "for i in 0 1; do\n  RANK=$i WORLD_SIZE=2 MASTER_ADDR=localhost MASTER_PORT=29500 python train.py\ndone\n",
    ),
    good=(
        "for i in 0 1; do\n  python train.py --rank $i --world_size 2 --dist_url tcp://127.0.0.1:29500 &\ndone\nwait\n",
        "for i in 0 1 2; do\n  python train.py --seed $i\ndone\n",
    ),
)
def ranks_one_after_another(job: LintJob) -> Iterator[LintFinding]:
    """The first rank waits for the second, which the loop starts when the first has ended."""
    for launch in job.launches:
        inside = launch.invocation
        if launch.launcher != "python" or not inside.in_loop or inside.background or launch.around:
            continue
        if any(invocation.background for invocation in inside.within):
            continue
        options = told(launch)
        rank = options.get("rank") or options.get("node_rank") or options.get("local_rank")
        setting = inside.settings.get("RANK")
        words = [rank.word.raw] if rank is not None else []
        words += [setting.word.raw] if setting is not None else []
        by_loop = any(f"${{{inside.in_loop}}}" in raw or f"${inside.in_loop}" in raw for raw in words)
        if not by_loop and rank is not None and rank.value is None:
            by_loop = True
        if not by_loop and rank is not None:
            after = launch.script_words[launch.script_words.index(rank.word) :][:2]
            by_loop = any(f"${inside.in_loop}" in word.raw.replace("{", "") for word in after)
        size = (
            "WORLD_SIZE" in inside.settings or {"world_size", "num_nodes", "dist_url", "init_method"} & options.keys()
        )
        if by_loop and size:
            yield LintFinding(
                span=inside.span,
                summary=f"the loop over {inside.in_loop} starts one rank after the other: each is waited for",
                happens="The first rank waits in init_process_group for ranks that start when it has ended.",
                fix="Put & behind the command, and wait behind the loop.",
            )
            return


_NOTEBOOK = "from accelerate import Accelerator, notebook_launcher\n"


@rule(
    "T31",
    title="A notebook makes its Accelerator inside of the function that is launched",
    source="accelerate, launchers.py: ValueError, the Accelerator should only be initialized inside your function",
    bad=(
        _NOTEBOOK + "a = Accelerator()\ndef f():\n    train(a)\nnotebook_launcher(f, num_processes=2)\n",
        _NOTEBOOK + "a = Accelerator(mixed_precision='fp16')\nnotebook_launcher(f, (1,), num_processes=8)\n",
    ),
    good=(
        _NOTEBOOK + "def f():\n    a = Accelerator()\n    train(a)\nnotebook_launcher(f, num_processes=2)\n",
        _NOTEBOOK + "a = Accelerator()\nnotebook_launcher(f, num_processes=1)\n",
    ),
)
def accelerator_before_launcher(job: LintJob) -> Iterator[LintFinding]:
    """notebook_launcher forks the ranks, and refuses to where this process has a state of its own already."""
    for code in codes(job):
        launcher = next((call for call in code.calls if code.name(call.func).endswith("notebook_launcher")), None)
        count = constant(argument(launcher, "num_processes", 2)) if launcher is not None else None
        if launcher is None or count == 1:
            continue
        for call in code.calls:
            made = code.name(call.func).rpartition(".")[2] in ("Accelerator", "PartialState", "AcceleratorState")
            if (
                made
                and call.lineno < launcher.lineno
                and not isinstance(code.scope_of(call), FUNCTIONS)
                and _runs(code, call)
            ):
                yield LintFinding(
                    span=code.span(call),
                    summary=f"{code.words(call.func)}() is made before notebook_launcher, outside of what it launches",
                    happens="ValueError: To launch a multi-GPU training from your notebook, the `Accelerator` should"
                    " only be initialized inside your training function.",
                    fix="Make it in the function, and restart the notebook's kernel.",
                )
                return


def _runs(code: PythonCode, call: ast.Call) -> bool:
    return not isinstance(code.scope_of(call), ast.Lambda)


_WITH_RAY = "import ray\nfrom ray.train import ScalingConfig\nfrom ray.train.torch import TorchTrainer\n"


@rule(
    "T29",
    title="Ray is given as many GPUs as its workers take",
    source="Ray 2.40, train/ScalingConfig: a GPU for each worker unless resources_per_worker says otherwise",
    bad=(
        _WITH_RAY + "ray.init(num_gpus=2)\n"
        "TorchTrainer(f, scaling_config=ScalingConfig(num_workers=8, use_gpu=True)).fit()\n",
        _WITH_RAY + "N = 4\n"
        "ray.init(num_gpus=1)\nTorchTrainer(f, scaling_config=ScalingConfig(num_workers=N, use_gpu=True)).fit()\n",
    ),
    good=(
        _WITH_RAY + "ray.init(num_gpus=8)\n"
        "TorchTrainer(f, scaling_config=ScalingConfig(num_workers=8, use_gpu=True)).fit()\n",
        _WITH_RAY + "ray.init(address='auto')\n"
        "TorchTrainer(f, scaling_config=ScalingConfig(num_workers=8, use_gpu=True)).fit()\n",
    ),
)
def ray_has_fewer_gpus(job: LintJob) -> Iterator[LintFinding]:
    """ray.init(num_gpus=...) is all that a cluster of one machine has; workers beyond it are never placed."""
    for code, starts in codes_and_starts(job):
        start: LintLaunch | None = starts[0] if len(starts) == 1 else None
        for init in code.calls:
            if code.name(init.func) != "ray.init" or argument(init, "address", 0) is not None:
                continue
            there = decided_number(code, argument(init, "num_gpus"), start)
            for call in code.calls if there is not None else ():
                if not (
                    isinstance(call.func, (ast.Name, ast.Attribute))
                    and ast.unparse(call.func).endswith("ScalingConfig")
                ):
                    continue
                workers = decided_number(code, argument(call, "num_workers"), start)
                uses = constant(argument(call, "use_gpu")) is True and argument(call, "resources_per_worker") is None
                if workers is not None and there is not None and uses and workers > there:
                    yield LintFinding(
                        span=code.span(call),
                        summary=f"num_workers={workers} with a GPU each, and ray.init gives Ray {there}",
                        happens="The trial stays pending: its resources are never there.",
                        fix=f"Ask for {there} workers, or let Ray count the GPUs (leave num_gpus out).",
                    )
