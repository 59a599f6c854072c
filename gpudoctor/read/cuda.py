"""What the CUDA driver said in its child process (`libcuda.py`) -> `Reading[CudaAnswer]`."""

import msgspec

from gpudoctor.active import ChildReply, messages
from gpudoctor.named import told
from gpudoctor.read.unanswered import unanswered
from gpudoctor.snapshot import CudaAnswer, Reading, absent, missing, read

SOURCE = "libcuda"


def assemble(reply: ChildReply) -> Reading[CudaAnswer]:
    """The child's lines -> what libcuda said, or why it said nothing."""
    running: list[str] = []
    for message in messages(reply.output):
        if isinstance(message.get("call"), str):
            running = [message["call"]]
        if "answer" in message:
            try:
                return read(SOURCE, msgspec.convert(message["answer"], CudaAnswer))
            except msgspec.ValidationError as error:
                return missing(SOURCE, f"unexpected answer: {told(error, message['answer'])}")
        if "absent" in message:
            return absent(SOURCE, str(message["absent"]) or "it did not say why")
        if "failed" in message:
            return missing(SOURCE, str(message["failed"]) or "it did not say why")
    return Reading(SOURCE, missing=unanswered(reply, running))
