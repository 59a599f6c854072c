"""Open MPI's mpirun, run once on the head: it reaches the hosts by ssh or the scheduler, and starts every rank.

torch knows nothing of OMPI_*: a shell around each rank says RANK, LOCAL_RANK and WORLD_SIZE. Without -x a variable
stays on the head, and without -bind-to none Open MPI binds each of two ranks to one core (measured with 4.1.4).
"""

from gpudoctor import command as shell_words
from gpudoctor.launch import words
from gpudoctor.launch.plan import Block, CannotEmit, Emission, LaunchPlan, Variable

RANKS = "RANK=$OMPI_COMM_WORLD_RANK LOCAL_RANK=$OMPI_COMM_WORLD_LOCAL_RANK WORLD_SIZE=$OMPI_COMM_WORLD_SIZE"


def emit(plan: LaunchPlan) -> Emission:
    """What to paste. Raises `CannotEmit`."""
    if plan.elastic:
        raise CannotEmit("--elastic: MPI's world is fixed; --framework torchrun is elastic")
    unknown = [node.name for node in plan.nodes if not node.known]
    if unknown:
        raise CannotEmit(
            "mpirun starts the other nodes itself and needs their names: --hosts n1,n2,... or --hostfile F"
        )
    own = sorted({variable.name for node in plan.nodes for variable in node.environment})
    slots = ",".join(f"{_host(node.name)}:{node.processes}" for node in plan.nodes)
    variables = (
        Variable("MASTER_ADDR", plan.master_address, _end(plan.why.get("master_address", ""))),
        Variable("MASTER_PORT", str(plan.master_port), _end(plan.why.get("master_port", ""))),
        *plan.environment,
    )
    passed_on = [part for name in plan.exported for part in ("-x", name)]
    for variable in variables:
        passed_on += ["-x", f"{variable.name}={variable.value}"]
    root = ["--allow-run-as-root"] if plan.as_root else []
    placed = ["-np", str(plan.world_size)]
    if len(plan.nodes) > 1:
        placed += ["-H", slots]
    command = ["mpirun", *root, *placed, "-bind-to", "none", "-map-by", "slot", *passed_on]
    inner = f"{RANKS} exec {words.line([plan.interpreter or plan.python, *plan.program])}"
    text = f"{words.line(words.without_leftovers(plan, command))} bash -c {shell_words.word(inner)}"
    comments = [
        words.comment(f"{plan.world_size} ranks, {slots}; mpirun starts them all, by ssh or the scheduler."),
        words.comment(
            "bash -c: Open MPI numbers its ranks in OMPI_*, which torch does not read; the shell around each rank says "
            "it in torch's words."
        ),
        words.comment("-bind-to none: else Open MPI binds a rank to one core (2 ranks) or one socket."),
        *words.reasons(variables),
    ]
    if plan.as_root:
        comments.append(words.comment("--allow-run-as-root: you are root, which mpirun refuses otherwise."))
    notes = ["The script reads RANK, LOCAL_RANK and WORLD_SIZE: init_process_group(backend) without further arguments."]
    if own:
        notes.append(
            f"{', '.join(own)} differ between the nodes, and mpirun passes one value to all: set them on each node "
            "(~/.bashrc is not read by its ssh), or use --framework torchrun."
        )
    where = f"on the head only, {plan.nodes[0].name}"
    return Emission(blocks=(Block(where, "\n".join([*comments, text]), 0),), notes=tuple(notes))


def _host(name: str) -> str:
    if ":" in name:
        raise CannotEmit(
            f"-H {name}: mpirun divides names from slots by a colon; give the node's name, not its address"
        )
    return name


def _end(reason: str) -> str:
    return f"{reason}." if reason else ""
