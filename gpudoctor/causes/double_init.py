"""The process group is initialised twice."""

from gpudoctor.cause import Cause
from gpudoctor.check import Fix

CAUSE = Cause(
    id="double-init",
    title="the process group is initialised twice",
    stages=("rendezvous",),
    blame="program",
    hangs_by="start",
    meaning=(
        "A library and the script both set up torch.distributed, or a private store is opened on the port of "
        "the launcher's. The second one waits for ranks that have joined already."
    ),
    fix=Fix(
        "Initialise once, before the library does, and guard by torch.distributed.is_initialized(). Give a store "
        "of your own another port."
    ),
    confirm=(
        "Look at the stacks: init_process_group stands below a library's frame on some ranks and below the "
        "script's on others, or a second time in one process."
    ),
    source=("torch distributed_c10d.py (init_process_group), rendezvous.py (TORCHELASTIC_USE_AGENT_STORE)"),
)
