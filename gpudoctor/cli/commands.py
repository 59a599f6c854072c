"""Which commands there are, and the text of `gpudoctor --help`. Loads nothing that takes time."""

import shutil
import textwrap

COMMANDS = {
    "check": "Is this machine ready to train? Problems first, each with a fix to paste. Or several: --hosts.",
    "capture": "Write what was read from this machine as JSON, to be diagnosed elsewhere with `check --from`.",
    "devices": "Which GPUs a CUDA program gets, in its own numbering, and what is wrong with CUDA_VISIBLE_DEVICES.",
    "env": "Which NCCL and PyTorch variables this machine needs, each with its reason; only those.",
    "topology": "GPUs and RDMA devices, and what connects each two, in NCCL's path classes.",
    "nccl-test": "Bandwidth of collectives across GPUs and nodes, graded, with the culprit named.",
    "amp": "Which precision really works on each device, proved by running it, and how to ask for it.",
    "train-test": "Parallel training in every way people use it, tried with a tiny model and verified rank by rank.",
    "launch": "What to paste on every node to start a training, with this cluster's addresses, ports and counts.",
    "hang": "Why is this job stuck? Reads a live job without stopping it, and names rank, line and fix.",
    "explain": "Why did this job fail? Reads logs: NCCL's, tracebacks, watchdogs, torchrun, Slurm, dmesg.",
    "checkpoint": "What is in this checkpoint, and what will loading it say? Runs nothing that is in it.",
    "lint": "What a launch command, script, sbatch file, hostfile or manifest will do, and what to write instead.",
    "checks": "List all checks, or describe one.",
}
"""Each is a function of its name in a module of its name. What its docstring says more is for its own --help."""
HIDDEN = {"agent": "Serve a head over standard input and output."}
"""What the head starts on each node."""
OPTIONS = {
    "--version": "Print the version and exit.",
    "--install-completion": "Install completion for the current shell.",
    "--show-completion": "Show completion for the current shell, to copy it or customize the installation.",
    "-h, --help": "Show this message and exit.",
}
ABOUT = "Is this machine ready to train? Diagnostics for multi-GPU PyTorch that always answer."
EPILOG = (
    "Exit status: 0 healthy (warnings allowed), 1 errors, 2 wrong usage or nothing could be examined, 3 cannot tell."
)
WIDEST = 100


def help_text() -> str:
    """As wide as the terminal, as the commands' own."""
    width = max(50, min(shutil.get_terminal_size().columns, WIDEST) - 2)

    def paragraph(text: str) -> str:
        return textwrap.fill(text, width, initial_indent="  ", subsequent_indent="  ")

    def table(rows: dict[str, str]) -> str:
        left = max(map(len, rows)) + 4
        return "\n".join(
            textwrap.fill(text, width, initial_indent=f"  {name}".ljust(left), subsequent_indent=" " * left)
            for name, text in rows.items()
        )

    return (
        f"Usage: gpudoctor [OPTIONS] COMMAND [ARGS]...\n\n{paragraph(ABOUT)}\n\nOptions:\n{table(OPTIONS)}\n\n"
        f"Commands:\n{table(COMMANDS)}\n\n{paragraph(EPILOG)}"
    )
