"""Texts of well-kept repositories that `explain` once took for a failed job's end, and twins that are one."""

import io

import pytest

from gpudoctor.explain.explain import explain
from gpudoctor.explain.report import Explanation

_STEP = (
    "{} | loss scale: 1024.0 | number of skipped iterations: {} | number of nan iterations: {} |\n"
    "time (ms) | forward: 4210.10 | backward: 9120.55 | optimizer: 43.03 |\n"
)


def explained(text: str) -> Explanation:
    return explain((), stdin=io.BytesIO(), texts=(text,), typed=False)


HEALTHY = {
    "what a machine's GPUs are": "GPU 0: NVIDIA H100 80GB HBM3\n  Compute Capability: 9.0\n  Memory: 79.1 GB\n",
    "a count of nan that is nought": _STEP.format("2.31E+00", 0, 0),
    "a setting of SLURM": "# of this cluster\nUnkillableStepTimeout=240\nKillOnBadExit=1\n",
    "code that catches": "    try:\n        reward = score(text)\n    except Exception:\n        reward = 0\n",
    "a comment of a script": "LOAD=out/last\n# the old checkpoint would mismatch here, so it goes\nrm -rf $LOAD\n",
}
FAILED = {
    "what a GPU has not": "RuntimeError: FlashAttention needs GPUs of compute capability 8.0 or newer\n",
    "a loss that is none": _STEP.format("lm loss: nan", 1, 1),
    "a step that SLURM could not kill": "slurmstepd: error: *** UnkillableStepTimeout reached on n17 ***\n",
    "what nobody caught": "  File \"/w/fit.py\", line 4, in <module>\n    reward = score(text)\nKeyError: 'score'\n",
    "a checkpoint that mismatches": "fit: error: checkpoint out/last: size mismatch, cannot resume\n",
}


@pytest.mark.parametrize("text", HEALTHY.values(), ids=HEALTHY)
def test_what_tells_of_no_failure_is_no_failure(text: str) -> None:
    answer = explained(text)
    assert (answer.causes, answer.unknown) == ((), None)


@pytest.mark.parametrize("text", FAILED.values(), ids=FAILED)
def test_what_tells_of_one_is_one(text: str) -> None:
    answer = explained(text)
    assert answer.causes or answer.unknown
