"""Flight recorders: the ring buffer in which torch keeps a process's last collectives, read from wherever it is found.

Nothing outside the process can look into the buffer: it lies on the process's heap, py-spy sees Python frames only, and
/proc has no trace of it. So a recorder is read from a file that torch wrote (NCCL does so at a time-out), or is asked
for: through the pipe that TORCH_NCCL_DEBUG_INFO_PIPE_FILE has made, or from the worker server of a process in which
`gpudoctor.arm()` runs. A gloo job without `arm()` keeps its recorder to itself.
"""

from gpudoctor.hang.evidence import Recorder
from gpudoctor.hang.read import recorder_entries
from gpudoctor.hang.read.recorder_pickle import MOST_BYTES as MOST_BYTES
from gpudoctor.hang.read.recorder_pickle import RefusedDump as RefusedDump
from gpudoctor.hang.read.recorder_pickle import UnreadableDump as UnreadableDump
from gpudoctor.hang.read.recorder_pickle import plain, without_collection


def read(raw: bytes, source: str, written_at: float = 0.0) -> Recorder:
    """Read a dump, a pickle or JSON, cut down as `Recorder` says.

    Raises `RefusedDump` where it wants something to be run, and `UnreadableDump` where it is cut short or foreign.
    """

    def made() -> Recorder:
        return recorder_entries.recorder(plain(raw), source, written_at)

    return without_collection(made)
