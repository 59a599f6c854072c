"""Which commands there are, and the text of `gpudoctor --help`. Loads nothing that takes time."""

import shutil
import textwrap

COMMANDS = {
    "check": "Is this machine ready to train? Problems first, each with a fix to paste. Or several: --hosts.",
    "capture": "Write what was read from this machine as JSON, to be diagnosed elsewhere with `check --from`.",
    "diff": "What differs between two captures: one machine at two times, or two machines. The worst first.",
    "devices": "Which GPUs a CUDA program gets, in its own numbering, and what is wrong with CUDA_VISIBLE_DEVICES.",
    "env": "Which NCCL and PyTorch variables this machine needs, each with its reason; only those.",
    "topology": "GPUs and RDMA devices, and what connects each two, in NCCL's path classes.",
    "nccl-test": "Bandwidth of collectives across GPUs and nodes, graded, with the culprit named.",
    "amp": "Which precision really works on each device, proved by running it, and how to ask for it.",
    "train-test": "Parallel training in every way people use it, tried with a tiny model and verified rank by rank.",
    "launch": "What to paste on every node to start a training, with this cluster's addresses, ports and counts.",
    "run": "Run a command as it is, and be there when it stalls or ends: what killed it, with its last words kept.",
    "report": "What a run left, on one page: what happened when, why it ended, and what every command says of it.",
    "hang": "Why is this job stuck? Reads a live job without stopping it, and names rank, line and fix.",
    "slow": "Why is this job slow? Names the rank that all others wait for, what that costs, and where it spends it.",
    "explain": "Why did this job fail? Reads logs: NCCL's, tracebacks, watchdogs, torchrun, Slurm, dmesg.",
    "checkpoint": "What is in this checkpoint, and what will loading it say? Runs nothing that is in it.",
    "lint": "What a launch command, script, sbatch file, hostfile or manifest will do, and what to write instead.",
    "sbatch": "Submit a batch script if what it starts has no error: shows what will happen, then calls sbatch.",
    "lsp": "Lint in an editor: a language server, with problems at their lines and quick fixes.",
    "about": "What an id in an answer means, and what to do: a check, a cause, a rule of lint, a symptom.",
    "checks": "List all checks, or describe one.",
}
"""Each is a function of its name in a module of its name. What its docstring says more is for its own --help."""
MODULES = {"run": "run_command"}
"""But these: `gpudoctor.cli.run` is a function already."""
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
    "Exit status: 0 nothing wrong, and what decides was seen; 1 a fault; 2 wrong usage; 3 cannot tell. The --help of "
    "each command says what that means for it."
)
WIDEST = 100
TROUBLES = {
    "Before a training": {
        "check": "Is this machine ready to train?",
        "check --hosts n1,n2": "Are these nodes ready, and are they alike?",
        "nccl-test": "How fast do GPUs and nodes reach each other?",
        "train-test": "Does parallel training compute rightly here?",
        "launch -- train.py": "What is to be pasted on every node?",
        "lint run.sh": "Will this start do what is meant?",
        "sbatch job.sh": "Is this job worth its wait in the queue?",
    },
    "It hangs": {
        "hang": "Which rank is it, and what does it wait for?",
    },
    "It died": {
        "explain train.log": "What came first, and does a restart help?",
        "run -- torchrun ...": "Killed by whom, and its last words?",
        "checkpoint model.pt": "What is in this file, and will it load?",
    },
    "It is slow": {
        "slow": "Which rank do all others wait for, and why?",
        "nccl-test --find-slow": "Which node, link or adapter is the slow one?",
        "amp": "Which precision is fast on these GPUs?",
    },
    "Which command": {
        "about ID": "What does this id in an answer mean?",
        "--help": "What is each command for?",
    },
}
"""What somebody comes with, and what to type then."""


def troubles_text() -> str:
    """What `gpudoctor` alone says; it fits a terminal of 80 columns and 24 lines as it stands."""
    left = max(len(line) for lines in TROUBLES.values() for line in lines)
    parts = (
        "\n".join((f"{trouble}:", *(f"  gpudoctor {line:{left}}  {text}" for line, text in lines.items())))
        for trouble, lines in TROUBLES.items()
    )
    return "\n".join((*textwrap.wrap(ABOUT, 80), *parts))


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


def in_words(complaint: str) -> str:
    """A complaint of click's without the names of its types."""
    for kind, word in (("float", "number"), ("integer", "whole number")):
        complaint = complaint.replace(f"is not a valid {kind} range", f"is no {word}")
        complaint = complaint.replace(f"is not a valid {kind}", f"is no {word}")
    return complaint
