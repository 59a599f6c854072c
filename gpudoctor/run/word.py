"""What Kubernetes says of the end of one pod of several, asked there: who keeps the report is another pod, and
its service account is not asked about others. A child asks, for it may hang and loads much.
"""

import os
import signal
import sys

import msgspec

from gpudoctor import active
from gpudoctor.read.lifeline import end_with_the_doctor
from gpudoctor.run.end import RunEnded, SchedulersWord

SECONDS = 6.0
"""For which a pod that ends waits for it."""


def main(arguments: list[str]) -> None:
    """The child: the run as JSON in, the word as JSON out; nothing where there is none."""
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    end_with_the_doctor()
    from gpudoctor.run.kubernetes import kubernetes_word

    if (word := kubernetes_word(msgspec.json.decode(arguments[0], type=RunEnded))) is not None:
        said = SchedulersWord(cause=word.cause, confidence=word.confidence, summary=word.summary, variant=word.variant)
        sys.stdout.buffer.write(msgspec.json.encode(said))


def schedulers_word(ended: RunEnded) -> SchedulersWord | None:
    """None: nothing is said in time, or this is no pod."""
    if "KUBERNETES_SERVICE_HOST" not in os.environ:
        return None
    try:
        child = active.start(
            "Kubernetes", active.own_module(__name__, msgspec.json.encode(ended).decode()), timeout=SECONDS
        )
        return msgspec.json.decode(active.gather([child])["Kubernetes"].output, type=SchedulersWord)
    except (OSError, msgspec.MsgspecError):
        return None
