"""Hugging Face accelerate: one `accelerate launch` a node, over torchrun's static rendezvous.

--num_processes is the total of all machines. --multi_gpu is what selects the launcher with several processes:
without it, and with one GPU a node, every node trains alone (accelerate 1.15, commands/launch.py; measured).
"""

from gpudoctor.launch import words
from gpudoctor.launch.plan import Block, CannotEmit, Emission, LaunchPlan, NodePlan, Variable

PRECISIONS = {"fp32": "no", "fp16": "fp16", "bf16": "bf16"}
STRATEGIES = {"": "--multi_gpu", "ddp": "--multi_gpu", "fsdp": "--use_fsdp"}


def emit(plan: LaunchPlan) -> Emission:
    """What to paste. Raises `CannotEmit`."""
    if plan.elastic:
        raise CannotEmit("--elastic: accelerate's --num_processes is one number; --framework torchrun is elastic")
    if plan.strategy not in STRATEGIES:
        hint = "; --framework deepspeed starts it" if plan.strategy.startswith("deepspeed") else ""
        raise CannotEmit(f"--strategy {plan.strategy}: accelerate is started with ddp or fsdp here{hint}")
    counts = sorted({node.processes for node in plan.nodes})
    if len(counts) > 1:
        raise CannotEmit(
            f"nodes with {counts[0]} to {counts[-1]} processes: accelerate divides its total evenly; "
            f"--gpus-per-node {counts[0]} uses as many on each, and --framework torchrun takes them as they are"
        )
    return Emission(blocks=tuple(_block(plan, node) for node in plan.nodes), notes=_notes(plan))


def launcher(plan: LaunchPlan) -> list[str]:
    """`accelerate launch`, or its module where the interpreter is named by a path."""
    if plan.python in ("python", "python3"):
        return ["accelerate", "launch"]
    return [plan.python, "-m", "accelerate.commands.launch"]


def _block(plan: LaunchPlan, node: NodePlan) -> Block:
    total, several = plan.world_size, len(plan.nodes) > 1
    command = launcher(plan)
    if total > 1:
        command += [STRATEGIES[plan.strategy]]
    elif plan.accelerator == "cpu":
        command += ["--cpu"]
    command += ["--num_machines", str(len(plan.nodes)), "--num_processes", str(total)]
    if several:
        command += [
            *("--machine_rank", str(node.rank)),
            *("--main_process_ip", plan.master_address, "--main_process_port", str(plan.master_port)),
            *("--rdzv_backend", "static", "--same_network"),
        ]
    else:
        command += ["--main_process_port", str(plan.master_port)]
    command += ["--mixed_precision", PRECISIONS.get(plan.precision, "no"), "--dynamo_backend", "no"]
    module = ["--module", *plan.program[1:]] if plan.program[0] == "-m" else list(plan.program)
    variables = words.of_node(plan, node)
    if plan.accelerator == "cpu":
        variables = (Variable("ACCELERATE_USE_CPU", "true"), *variables)  # Accelerator() looks for a GPU otherwise
    comments = [words.comment(f"--num_processes is the total: {len(plan.nodes)} x {node.processes}.")]
    if total > 1 and not plan.strategy.startswith("fsdp"):
        comments.append(
            words.comment(
                "--multi_gpu: the launcher with one process a rank, on CPU too. Without it, and with one GPU a node, "
                "every node trains alone."
            )
        )
    if node.rank == 0 and several:
        comments += [
            words.comment(f"{label}: {plan.why[name]}.")
            for name, label in (("processes", "Processes"), ("master_address", "Address"), ("master_port", "Port"))
            if name in plan.why
        ]
    text = words.prefixed(variables, words.without_leftovers(plan, [*command, *module], variables))
    return Block(words.title(plan, node), "\n".join([*comments, *words.reasons_for(plan, node), text]), node.rank)


def _notes(plan: LaunchPlan) -> tuple[str, ...]:
    notes = [
        "What stands here beats the file of `accelerate config`; but a gpu_ids in that file replaces "
        "CUDA_VISIBLE_DEVICES, and --config_file names another file."
    ]
    if not plan.precision:
        notes.append("--mixed_precision no: fp32, for nothing else was asked for (--precision bf16).")
    return tuple(notes)
