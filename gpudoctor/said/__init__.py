"""What commands say beside checks, causes, rules and symptoms: what an id of theirs means, without a job's own values.

Kept by hand beside the functions that say it; `tests/test_about.py` finds the ids of those, and wants each here.
"""

from gpudoctor.command import command
from gpudoctor.said import amp, checkpoint, lint, nccl_test
from gpudoctor.said.diff import BASELINE, DIFF
from gpudoctor.said.one import Meaning, said_by

SAID: dict[str, Meaning] = {
    **nccl_test.NCCL,
    **checkpoint.CHECKPOINT,
    **amp.AMP,
    **lint.LINT,
    "nodes-differ": said_by("check --hosts")(
        "Something that should be alike on all nodes is not.",
        "Ranks of one job then behave differently, and the slowest or the oddest decides for all.",
        "Make the odd node like the others, or leave it out.",
        command("gpudoctor check --hosts {:name}", "n01,n02"),
    ),
    "cause-not-seen": said_by("hang and explain")(
        "A failure or a hang is seen, and its cause is not.",
        "It is a fault all the same, and not one that what was read explains.",
        "Give more of what happened: the logs of all ranks, or look while the job still hangs.",
        command("gpudoctor hang"),
    ),
    "claim-not-verified": said_by("launch --check")(
        "Something that the launch rests on could not be looked at.",
        "Whether it holds is not known: the start may work, or wait until its time-out.",
        "Paste the line that stands with it, on the node that it names.",
    ),
    "script-missing-on-node": said_by("launch --check")(
        "The training script is not there on a node.",
        "The ranks of that node end at once, and the others wait until their time-out.",
        "Put it where every node has it, as on a shared file system, or name the path that all have.",
    ),
    **DIFF,
    **BASELINE,
    "train-failed": said_by("train-test")(
        "A way of training was started, and a rank ended with an exception.",
        "A training that is wrapped in this way ends there too.",
        "Read the exception that stands with it, and check the training interpreter.",
        command("gpudoctor check pytorch"),
    ),
}
