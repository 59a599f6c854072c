"""The plan for TPUs: PyTorch/XLA finds the other workers by itself; no rank or master is set by hand.

Source: PyTorch/XLA's documentation ("Running on TPU"); xla_dist and XRT went with torch_xla 2.1 (2023).
"""

from gpudoctor.knowledge.superseded import parsed
from gpudoctor.launch.emitters.parts import elsewhere, refuse_elastic
from gpudoctor.launch.plan import Block, Emission, LaunchPlan, Variable
from gpudoctor.launch.words import comment, line, prefixed

LAUNCH_SINCE = (2, 5)
NAME, ZONE = "TPU_NAME", "TPU_ZONE"
BODY = """\
def train(index):
    device = xm.xla_device()
    rank, world_size = {rank}, {world_size}
    # model.to(device); DistributedSampler(data, num_replicas=world_size, rank=rank);
    # xm.optimizer_step(optimizer) in place of optimizer.step()


if __name__ == "__main__":
    {start}
"""


def emit(plan: LaunchPlan) -> Emission:
    """Lines for the machine that has gcloud, and the start of the script. Raises `CannotEmit`."""
    refuse_elastic(plan, "PyTorch/XLA")
    kept = tuple(each for each in plan.environment if not each.name.startswith(("NCCL_", "GLOO_", "CUDA_", "OMP_")))
    remote = prefixed((Variable("PJRT_DEVICE", "TPU"), *kept), [elsewhere(plan.python), *plan.program])
    gcloud = ["gcloud", "compute", "tpus", "tpu-vm"]
    copy = [*gcloud, "scp", "--recurse", ".", f"{NAME}:", f"--zone={ZONE}", "--worker=all"]
    start = [*gcloud, "ssh", NAME, f"--zone={ZONE}", "--worker=all", f"--command={remote}"]
    lines = [
        comment(f"{NAME} and {ZONE} are those of your TPU: gcloud compute tpus tpu-vm list --zone=-"),
        comment("First the files: every worker runs its own copy of them."),
        line(copy),
        comment("Then the start, on all workers at once: a worker that is left out keeps the others waiting."),
        line(start),
    ]
    return Emission(
        blocks=(Block("where gcloud is set up, once", "\n".join(lines) + "\n", 0),),
        code=_code(plan),
        notes=(
            "A TPU has no MASTER_ADDR, RANK or number of processes to be set: PJRT takes them from the machine, one "
            "process a chip, on as many workers as the TPU has.",
            "torch_xla.distributed.xla_dist and XRT_TPU_CONFIG, which tutorials use, were removed in torch_xla 2.1; "
            "this is what replaced them.",
        ),
    )


def _code(plan: LaunchPlan) -> str:
    version = parsed(plan.versions.get("torch_xla") or plan.versions.get("torch-xla") or "")
    if version is None or version >= LAUNCH_SINCE:
        body = BODY.format(
            rank="xr.global_ordinal()", world_size="xr.world_size()", start="torch_xla.launch(train, args=())"
        )
        return "import torch_xla\nimport torch_xla.core.xla_model as xm\nimport torch_xla.runtime as xr\n\n\n" + body
    body = BODY.format(
        rank="xm.get_ordinal()",
        world_size="xm.xrt_world_size()",
        start="xmp.spawn(train, args=(), nprocs=None)  # None: all chips of the worker",
    )
    imports = "import torch_xla.core.xla_model as xm\nimport torch_xla.distributed.xla_multiprocessing as xmp\n\n\n"
    return imports + body
