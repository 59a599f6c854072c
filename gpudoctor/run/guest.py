"""Takes part, for its node, in a look that the doctor of another node of the job has begun."""

import os
import signal

from gpudoctor.fleet.take_part import TOKEN, take_part
from gpudoctor.read.lifeline import end_with_the_doctor

PATIENCE_SECONDS = 20.0


def main(arguments: list[str]) -> None:
    """The process: address and port; the token is in the environment."""
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    end_with_the_doctor()
    address, port = arguments
    token = os.environ.pop(TOKEN, "")
    take_part(address, int(port), token, patience=PATIENCE_SECONDS, say=lambda text: None, shows_jobs=True)
