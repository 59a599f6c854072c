"""torchx run [options] dist.ddp|dist.spmd [options]: source cli/cmd_run.py, components/dist.py of torchx 0.7.

The options of both parts are in one table; "j" is NxG: nodes times processes per node.
"""

from gpudoctor.lint.launchers.grammar import Grammar, table

_RUN = """
scheduler -s =
scheduler_args -cfg =
dryrun
wait
log
workspace --buck-target =
parent_run_id =
stdin
tee_logs
help -h
"""
_COMPONENT = """
script =
m -m =
image =
name =
h -h =
cpu =
gpu =
memMB =
j -j =
env =
max_retries =
rdzv_port =
rdzv_backend =
rdzv_conf =
mounts =
debug ?
tee =
verbose
"""

RUN = Grammar(table(_RUN))
COMPONENT = Grammar(table(_COMPONENT))
COMPONENTS = ("dist.ddp", "dist.spmd")
