"""Modal: functions of a program run in containers, with the GPUs that their decorator names; `modal run FILE`. It is
only read.

Source: modal 1.6, cli/run.py.
"""

from gpudoctor.knowledge.modal_functions import gpus_at
from gpudoctor.launcher.grammar import Grammar
from gpudoctor.launcher.traits import Form, LauncherTraits

LAUNCHER = LauncherTraits(
    name="modal",
    forms=(
        Form(
            launcher="modal",
            programs=("modal run",),
            grammar=Grammar("write-result,-w= quiet,-q detach,-d interactive,-i env,-e= name= m,-m", prefixes=False),
        ),
    ),
    gpus_at=gpus_at,
    fixed="a cluster of Modal has a fixed size",
)
