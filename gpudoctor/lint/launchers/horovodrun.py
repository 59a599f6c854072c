"""horovodrun: source runner/launch.py of Horovod 0.28. "np" is -np and --num-proc."""

from gpudoctor.lint.launchers.grammar import Grammar, table

_OPTIONS = """
np -np --num-proc =
check-build -cb
version -v
help -h
disable-cache
start-timeout =
network-interfaces --network-interface =
output-filename =
verbose
config-file =
ssh-port -p =
ssh-identity-file -i =
fusion-threshold-mb =
cycle-time-ms =
cache-capacity =
hierarchical-allreduce
no-hierarchical-allreduce
hierarchical-allgather
no-hierarchical-allgather
torus-allreduce
no-torus-allreduce
autotune
no-autotune
autotune-log-file =
autotune-warmup-samples =
autotune-steps-per-sample =
autotune-bayes-opt-max-samples =
autotune-gaussian-process-noise =
min-np --min-num-proc =
max-np --max-num-proc =
slots-per-host =
elastic-timeout =
reset-limit =
blacklist-cooldown-range ==
timeline-filename =
timeline-mark-cycles
no-timeline-mark-cycles
no-stall-check
stall-check
stall-check-warning-time-seconds =
stall-check-shutdown-time-seconds =
mpi-threads-disable
no-mpi-threads-disable
mpi-args =
tcp
binding-args =
num-nccl-streams =
thread-affinity =
gloo-timeout-seconds =
log-level =
log-with-timestamp
log-without-timestamp
prefix-output-with-timestamp -prefix-timestamp
log-hide-timestamp
no-log-hide-timestamp
hosts -H =
hostfile -hostfile =
host-discovery-script =
gloo
mpi
jsrun
"""

HOROVODRUN = Grammar(table(_OPTIONS))
MODULES = ("horovod.runner.launch", "horovod.run.run")
