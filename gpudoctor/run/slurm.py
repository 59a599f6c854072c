"""What SLURM itself says of the job in which a run has ended."""

import subprocess
import time

from gpudoctor import programs
from gpudoctor.run.end import ENDING_SECONDS, RunEnded
from gpudoctor.run.verdict import OF_SLURM, first_death

SLURM_SECONDS = 4.0
CLOCKS_SECONDS = 5.0
"""Between those of two machines."""


def slurms_word(ended: RunEnded) -> str:
    """How SLURM itself calls the state of this job; empty: it is no job of SLURM's, nothing is said in time, or SLURM
    had ended it before this run was started (a shell has lived on), or ended it when it had died of something else."""
    program = programs.find("scontrol") if ended.slurm_job.isdigit() else None
    if program is None:
        return ""
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
        return ""
    words = dict(word.partition("=")[::2] for word in done.stdout.decode("utf-8", "replace").split())
    word = next((words[name] for name in ("Reason", "JobState") if words.get(name) in OF_SLURM), "")
    end = words.get("EndTime", "")
    if not word or not end.isdigit():
        return ""
    first = first_death(ended)
    died = time.time() - (time.monotonic() - ended.began) + (first.seconds if first is not None else ended.seconds)
    return word if died - ENDING_SECONDS <= float(end) <= died + CLOCKS_SECONDS else ""
