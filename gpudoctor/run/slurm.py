"""What SLURM itself says of the job in which a run has ended."""

import subprocess
import time

from gpudoctor import programs
from gpudoctor.run.end import ENDING_SECONDS, RunEnded
from gpudoctor.run.verdict import Found, first_death
from gpudoctor.sure import PROVED

OF_SLURM = {
    **dict.fromkeys(("TIMEOUT", "TimeLimit"), "time-limit"),
    "PREEMPTED": "preempted",
    "NODE_FAIL": "node-lost",
    "OUT_OF_MEMORY": "host-out-of-memory",
    "CANCELLED": "cancelled",
}
"""State or reason of its own job that SLURM tells (squeue(1), JOB STATE CODES)."""
SLURM_SECONDS = 4.0
CLOCKS_SECONDS = 5.0
"""Between those of two machines."""


def slurms_word(ended: RunEnded) -> Found | None:
    """What SLURM itself says of the end of this job; None: it is no job of SLURM's, nothing is said in time, or SLURM
    had ended it before this run was started (a shell has lived on), or ended it when it had died of something else."""
    program = programs.find("scontrol") if ended.slurm_job.isdigit() else None
    if program is None:
        return None
    try:
        done = subprocess.run(
            [program, "show", "job", ended.slurm_job, "--oneliner"],
            env={**programs.environment(), "SLURM_TIME_FORMAT": "%s"},
            cwd=programs.ELSEWHERE,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=SLURM_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    words = dict(word.partition("=")[::2] for word in done.stdout.decode("utf-8", "replace").split())
    word = next((words[name] for name in ("Reason", "JobState") if words.get(name) in OF_SLURM), "")
    end = words.get("EndTime", "")
    if not word or not end.isdigit():
        return None
    died = died_at(ended)
    if not died - ENDING_SECONDS <= float(end) <= died + CLOCKS_SECONDS:
        return None
    return Found(cause=OF_SLURM[word], confidence=PROVED, summary=f"SLURM ended the job ({word})")


def died_at(ended: RunEnded) -> float:
    """In seconds since 1970, the process whose end ended the run."""
    first = first_death(ended)
    return time.time() - (time.monotonic() - ended.began) + (first.seconds if first is not None else ended.seconds)
