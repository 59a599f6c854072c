"""Flux: `flux run -N 2 -n 16 command` starts tasks as srun does; submit hands them in, alloc and batch make an instance
in which more is started. It is only read.

Source: flux-core 0.87, bindings/python/flux/cli/base.py (SubmitBaseCmd, BatchAllocCmd), flux-environment(7). Python's
argparse without abbreviations of long options (allow_abbrev=False); `flux mini` went with 0.48.
"""

from gpudoctor.launcher.grammar import Grammar
from gpudoctor.launcher.traits import Form, LauncherTraits

_ALL = """
    bank,-B= queue,-q= time-limit,-t= urgency= job-name= setopt,-o= setattr,-S= add-file= dependency= requires=
    begin-time= env= env-remove= env-file= rlimit= input= output= error= unbuffered,-u label-io,-l cwd= flags= signal=
    dry-run quiet nodes,-N= exclusive,-x verbose,-v help
"""
_TASKS = (
    _ALL
    + """
    ntasks,-n= cores-per-task,-c= gpus-per-task,-g= cores= tasks-per-node= tasks-per-core= gpus-per-node= taskmap=
    cc= bcc= wait-event= wait watch log= log-stderr= progress jps
"""
)
_SLOTS = _ALL + "conf= broker-opts= dump? nslots,-n= cores-per-slot,-c= gpus-per-slot,-g= wrap bg"

LAUNCHER = LauncherTraits(
    name="flux",
    forms=(
        Form(
            launcher="flux",
            programs=("flux run", "flux submit", "flux mini run", "flux mini submit"),
            grammar=Grammar(_TASKS, "getopt", prefixes=False),
        ),
        Form(
            launcher="flux alloc",
            programs=("flux alloc", "flux batch", "flux mini alloc", "flux mini batch"),
            grammar=Grammar(_SLOTS, "getopt", prefixes=False),
        ),
    ),
    bare=True,
    reads_master=True,
    total_option="ntasks",
    fixed="a job step's world is fixed",
)
