"""DeepSpeed: a hostfile and one command on the head, or the same without ssh on every node.

Options and files as launcher/runner.py and multinode_runner.py of DeepSpeed 0.19.8 read them. Its long options have
underscores only.
"""

from gpudoctor.knowledge.superseded import parsed
from gpudoctor.launch.parts import arguments, beside, is_module, target
from gpudoctor.launch.plan import CannotEmit, Emission, EmittedFile, LaunchPlan, PasteBlock
from gpudoctor.launch.words import comment, line, node_block, of_node, without_leftovers
from gpudoctor.launcher.grammar import Grammar
from gpudoctor.launcher.traits import Form, LauncherTraits
from gpudoctor.lazy import lazy_re

OPTIONS = """
    hostfile,-H= include,-i= exclude,-e= num_nodes= min_elastic_nodes= max_elastic_nodes= num_gpus,--num_accelerators=
    master_port= master_addr= node_rank=@deepspeed:0.14.5 launcher= launcher_args= module no_python no_local_rank
    no_ssh@deepspeed:0.14.5 no_ssh_check force_multi save_pid enable_each_rank_log= autotuning= elastic_training
    bind_cores_to_rank bind_core_list= ssh_port= venv_script= log_level= quiet,-q help,-h
"""

HOSTFILE = "hostfile"
ENVIRONMENT_FILE = ".deepspeed_env"
NO_SSH_SINCE = (0, 14, 5)
EXPORTED = ("NCCL", "PYTHON", "MLFLOW", "MV2", "UCX")
"""Beginnings of the variables that the head's shell hands on to the other nodes."""
LOCAL_RANK = "DeepSpeed hands --local_rank=N to the script; where the script has no such argument, add --no_local_rank."
SURVIVES_PDSH = lazy_re(r"[A-Za-z0-9_@%+=:,./ -]+")
"""pdsh joins the words for a remote shell; DeepSpeed puts quotes around blanks and around nothing else."""
SURVIVES_EXPORT = lazy_re(r'[^"$`\\\n\r]*')
"""DeepSpeed puts double quotes around a value with special letters."""


def write(plan: LaunchPlan) -> Emission:
    """The hostfile, .deepspeed_env, the head's command, and a command a node without ssh. Raises `CannotEmit`."""
    if len(plan.nodes) == 1:
        return _one_node(plan)
    names = not any(
        ":" in node.name for node in plan.nodes
    )  # pdsh takes what stands before a colon for a module's name
    quoted = [argument for argument in plan.program if not SURVIVES_PDSH.fullmatch(argument)] != [] or " " in target(
        plan
    )
    by_pdsh = names and not quoted
    version = parsed(plan.versions.get("deepspeed", ""))
    by_hand = version is None or version >= NO_SSH_SINCE
    if not names and not by_hand:
        raise CannotEmit(
            f"DeepSpeed {plan.versions['deepspeed']} reaches the nodes by pdsh, which cuts IPv6 addresses at a colon: "
            "give the nodes' names, or upgrade to DeepSpeed 0.14.5 for --no_ssh"
        )
    if not by_pdsh and not by_hand:
        raise CannotEmit(
            f"DeepSpeed {plan.versions['deepspeed']} hands arguments through pdsh, which loses quotes and $: "
            "put them into a file that the script reads, or upgrade to DeepSpeed 0.14.5 for --no_ssh"
        )
    files = [EmittedFile(HOSTFILE, _hostfile(plan))]
    blocks, notes = [], []
    if by_pdsh:
        lines = [comment("Run it once. It reaches every host of the hostfile by ssh without a password, this one too.")]
        blocks.append(
            PasteBlock(
                f"on {plan.nodes[0].name} only (node rank 0)",
                "\n".join([*lines, line(without_leftovers(plan, _command(plan)))]) + "\n",
                node=0,
            )
        )
        kept = [variable for variable in plan.environment if SURVIVES_EXPORT.fullmatch(variable.value)]
        if kept:
            # No comments: every line of this file is split at its first "=".
            text = "".join(f"{variable.name}={variable.value}\n" for variable in kept)
            files.append(EmittedFile(ENVIRONMENT_FILE, text))
            notes.append(
                f"{ENVIRONMENT_FILE} belongs into the folder in which deepspeed is started: its lines are set on every "
                f"node, where otherwise only {'*, '.join(EXPORTED)}* of the head's shell arrive. It takes no comments."
            )
            notes += [f"{variable.name}: {variable.reason}" for variable in kept if variable.reason]
        notes += [
            f"{variable.name} cannot stand in {ENVIRONMENT_FILE}: it holds a quote, $ or backslash."
            for variable in plan.environment
            if variable not in kept
        ]
        notes += _of_single_nodes(plan)
    else:
        notes.append(
            "An argument holds letters that pdsh's remote shell would read again, so that only the form without ssh "
            "is given."
            if quoted
            else "pdsh cuts IPv6 addresses at a colon, so that only the form without ssh is given; nodes with names "
            "have both."
        )
    if by_hand and by_pdsh:
        files += [
            EmittedFile(f"without_ssh_node{number}.sh", f"{block.text}\n", executable=True, alternative=True)
            for number, block in enumerate(_without_ssh(plan))
        ]
        notes.append(
            "Where there is no ssh between the nodes, start the same on every node with --no_ssh --node_rank=K: "
            f"without_ssh_node0.sh to without_ssh_node{len(plan.nodes) - 1}.sh, which -o DIR writes."
        )
    elif by_hand:
        blocks += _without_ssh(plan)
    notes.append(LOCAL_RANK)
    return Emission(blocks=tuple(blocks), files=tuple(files), notes=tuple(notes))


def _hostfile(plan: LaunchPlan) -> str:
    head = comment("DeepSpeed's hostfile: a host as ssh names it, in node-rank order, and its GPUs.")
    return "\n".join([head, *(f"{node.name} slots={node.processes}" for node in plan.nodes)]) + "\n"


def _command(plan: LaunchPlan, *options: str) -> list[str]:
    address = [f"--master_addr={plan.master_address}"] if len(plan.nodes) > 1 else []
    hosts = [f"--hostfile={HOSTFILE}"] if len(plan.nodes) > 1 else []
    module = ["--module"] if is_module(plan) else []
    port = f"--master_port={plan.master_port}"
    program = [*module, target(plan), *arguments(plan)]
    return [beside(plan.python, "deepspeed"), *hosts, *options, *address, port, *program]


def _without_ssh(plan: LaunchPlan) -> list[PasteBlock]:
    """One command a node (DeepSpeed 0.14.5 and later)."""
    return [node_block(plan, node, _command(plan, "--no_ssh", f"--node_rank={node.rank}")) for node in plan.nodes]


def _of_single_nodes(plan: LaunchPlan) -> list[str]:
    """Values of one node only, which a file for all cannot hold."""
    return [
        f"{variable.name}={variable.value} is for {node.name} only: with pdsh, put it into that node's ~/.bashrc, or "
        "take the form without ssh."
        for node in plan.nodes
        for variable in node.environment
        if variable.name != "CUDA_VISIBLE_DEVICES"
    ]


def _one_node(plan: LaunchPlan) -> Emission:
    """DeepSpeed takes CUDA_VISIBLE_DEVICES for itself where no filter is given; --num_gpus would override it."""
    (node,) = plan.nodes
    shown = any(variable.name == "CUDA_VISIBLE_DEVICES" for variable in of_node(plan, node))
    command = _command(plan, *([] if shown else [f"--num_gpus={node.processes}"]))
    return Emission(blocks=(node_block(plan, node, command),), notes=(LOCAL_RANK,))


LAUNCHER = LauncherTraits(
    name="deepspeed",
    forms=(
        Form(
            launcher="deepspeed",
            programs=("deepspeed", "ds", "deepspeed.pt"),
            modules=("deepspeed.launcher.runner", "deepspeed.launcher.launch"),
            grammar=Grammar(OPTIONS),
            all_known=True,
            newest="deepspeed 0.19",
        ),
    ),
    fans_out=True,
    sets_ranks=True,
    trains="deepspeed",
    underscores=True,
    ranks_option="num-gpus",
    decisive=("node-rank", "master-addr", "master-port", "num-nodes", "num-gpus"),
    unmistakable=("hostfile", "num-gpus", "num-nodes", "include", "exclude"),
    runs_as="deepspeed",
    kept_numbers="num-nodes num-gpus num-accelerators ssh-port min-elastic-nodes max-elastic-nodes",
    package="deepspeed",
    write=write,
    fixed="DeepSpeed is emitted for a fixed set of nodes",
    precisions={
        "bf16": 'DeepSpeed\'s configuration file: "bf16": {"enabled": true}',
        "fp16": 'DeepSpeed\'s configuration file: "fp16": {"enabled": true}',
        "fp32": "DeepSpeed's configuration file: no autocast, and 32-bit weights",
    },
)
