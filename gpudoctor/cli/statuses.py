"""Which exit status means what: one table for all commands. Their --help and docs/exit-status.md are made of it.

0  nothing wrong, and what decides was seen
1  a fault: also where a failure or hang is seen and its cause is not, and where a host that was named cannot be reached
2  wrong usage, or a file of no known kind: nothing was started
3  cannot tell

Of several inputs 1 wins over 3, and 3 over 0. Loads nothing that takes time.
"""

from typing import NamedTuple


class StatusRow(NamedTuple):
    """What the statuses of one command mean; "" where it never ends with that one for a reason of its own."""

    good: str
    fault: str
    unknown: str
    usage: str = ""
    """What is wrong usage of this command besides an option, a value, or a file that is not there."""
    others: str = ""
    """Of a command that ends as another program has ended: all that there is to say."""


OF_EVERY_COMMAND = StatusRow(
    good="nothing wrong, and what decides was seen",
    fault="a fault, also one whose cause is not seen; a host that was named cannot be reached",
    unknown="cannot tell: what decides could not be seen",
    usage="wrong usage, or a file of no known kind: nothing was started",
)
UNREACHED = "a host that was named cannot be reached"
STATUSES = {
    "check": StatusRow(
        "ready, or nothing wrong in what was asked for (warnings allowed)",
        f"an error (--strict: or a warning, or a check that could not look), or {UNREACHED}",
        "what decides was not seen: no accelerator and no --expect cpu, no torch, an empty or cut file",
    ),
    "capture": StatusRow(
        "written",
        UNREACHED,
        "no job runs that could be captured, or looking for it failed",
        "-o names a file that cannot be written",
    ),
    "diff": StatusRow(
        "B is not worse than A: nothing that counts differs, or nothing for the worse",
        "B is worse in something: gone, slower, more errors, an older version, or a fault that A has not",
        "what decides is in one of them only, or a file is cut; or the two have nothing in common",
    ),
    "devices": StatusRow(
        "the program gets what the variable names",
        "something is wrong with CUDA_VISIBLE_DEVICES, or the driver gives other devices",
        "no GPU to select from, or what decides is not in the file",
    ),
    "env": StatusRow(
        "the settings are printed, or none is needed",
        "",
        "nothing that decides could be read, so that no setting could be judged",
        "the format cannot express a setting",
    ),
    "topology": StatusRow("shown", "", "nothing to show: no GPU and no RDMA device was read"),
    "nccl-test": StatusRow(
        "the test ended, its results are right, and no bandwidth is too low",
        f"a fault or a culprit was found, the test did not end or was not started, or {UNREACHED}",
        "it went over gloo because NCCL cannot be used here (--backend gloo asks for that); or looking failed",
    ),
    "amp": StatusRow(
        "what the hardware has works",
        "a precision does not, or a device cannot be used",
        "torch is not there, or nothing could be tested",
    ),
    "train-test": StatusRow(
        "all that applies passes",
        f"one does not, the test was not started, or {UNREACHED}",
        "nothing that was asked for applies here",
    ),
    "launch": StatusRow(
        "written; with --check every claim is true",
        f"with --check: a claim is false, or {UNREACHED}",
        "with --check: no claim is false, and not all could be looked at",
        "what the framework cannot do",
    ),
    "run": StatusRow(
        "",
        "",
        "",
        others="the command's own, whatever it is, and where a signal ended it the same signal; 125 wrong usage or a "
        "failure of gpudoctor, 126 the command cannot be executed, 127 it is not found",
    ),
    "report": StatusRow(
        "the run has ended well; or nothing is wrong in what the folder holds",
        "the run has failed; or an answer in the folder tells a fault",
        "the run has not ended, or nothing in the folder decides",
        "a folder that cannot be read, or none was kept",
    ),
    "hang": StatusRow(
        "the job gets on, or has ended",
        f"a job hangs, has a fault, or waits for a rank that is named; or {UNREACHED}",
        "no job is seen, or whether it gets on is not known; an empty or cut file",
        "no such process, job or user",
    ),
    "slow": StatusRow(
        "no rank is slower than the others, and that was seen",
        f"a rank is named that all others wait for; or {UNREACHED}",
        "no job is seen, its ranks are not armed, or what was recorded does not tell; an empty or cut file",
        "no such process, job or user",
    ),
    "explain": StatusRow(
        "the logs show a job that gets on or has ended well",
        "something failed, also where its cause is not seen",
        "neither is seen: an empty or cut log, or one of several that could not be read",
        "no file could be read",
    ),
    "checkpoint": StatusRow(
        "its weights can be used as they are",
        "they cannot: NaN, one rank's part, another model; a file that is cut off, empty or damaged",
        "reading it failed",
        "a file of another kind, or one that should not be loaded at all",
    ),
    "lint": StatusRow(
        "no rule of severity error fires",
        "one does",
        "the text is empty, or no start of a training was understood in it (in one of several, or in none of a folder)",
        "a config that cannot be used, or a correction that cannot be written",
    ),
    "sbatch": StatusRow(
        "submitted: what sbatch ended with",
        "not submitted, for it has an error; or what sbatch ended with",
        "",
        "a script that cannot be read, or no sbatch on this machine",
    ),
    "lsp": StatusRow("the editor has left", "", "", "pygls is not installed"),
    "about": StatusRow("described", "", "", "nothing has that id"),
    "checks": StatusRow("listed", "", "", "no check or group has that name"),
}
"""By the command's name."""
ELSEWHERE = (
    "With --nagios: 0 OK, 1 WARNING, 2 CRITICAL, 3 UNKNOWN. 130 after Ctrl-C, 128 plus the signal's number after "
    "another, 141 where the reader of the output has left."
)


def sentence(name: str) -> str:
    """The command's row for its --help, as one paragraph."""
    row = STATUSES[name]
    if row.others:
        return f"Exit status: {row.others}."
    parts = [f"0 {row.good}"]
    if row.fault:
        parts.append(f"1 {row.fault}")
    parts.append(f"2 wrong usage{', or ' + row.usage if row.usage else ''}")
    if row.unknown:
        parts.append(f"3 cannot tell: {row.unknown}")
    return f"Exit status: {'; '.join(parts)}."


def table() -> str:
    """All of it in Markdown."""
    lines = ["| command | 0 | 1 | 2 | 3 |", "|---|---|---|---|---|"]
    every = OF_EVERY_COMMAND
    lines.append(f"| all | {every.good} | {every.fault} | {every.usage} | {every.unknown} |")
    for name, row in STATUSES.items():
        if row.others:
            lines.append(f"| `{name}` | {row.others} | - | - | - |")
            continue
        cells = (row.good, row.fault, f"wrong usage{', or ' + row.usage if row.usage else ''}", row.unknown)
        lines.append(f"| `{name}` | " + " | ".join(cell or "-" for cell in cells) + " |")
    return "\n".join(lines)
