"""srun, sbatch and salloc: the options of Slurm.

Source: srun(1) and sbatch(1) of Slurm 22.05, the newer ones of 25.05; --container-... of the pyxis plugin. Older
spellings with an underscore (--cpu_bind) are still taken.
"""

from collections.abc import Sequence

from gpudoctor.lint.launchers.grammar import Grammar, OptionSpec, table
from gpudoctor.lint.model import Span, Word

_BOTH = """
account -A =
acctg-freq =
bb =
bbf =
begin -b =
chdir -D =
cluster-constraint =
clusters -M =
comment =
constraint -C =
container =
container-id =
contiguous
core-spec -S =
cores-per-socket =
cpu-freq =
cpus-per-gpu =
cpus-per-task -c =
deadline =
delay-boot =
dependency -d =
distribution -m =
error -e =
exclude -x =
exclusive ?
export =
extra =
extra-node-info -B =
gid =
gpu-bind =
gpu-freq =
gpus -G =
gpus-per-node =
gpus-per-socket =
gpus-per-task =
gres =
gres-flags =
help -h
hint =
hold -H
input -i =
job-name -J =
licenses -L =
mail-type =
mail-user =
mcs-label =
mem =
mem-bind --mem_bind =
mem-per-cpu =
mem-per-gpu =
mincpus =
network =
nice ?
no-kill -k ?
nodefile -F =
nodelist -w =
nodes -N =
ntasks -n =
ntasks-per-core =
ntasks-per-gpu =
ntasks-per-node =
ntasks-per-socket =
open-mode =
output -o =
overcommit -O
oversubscribe -s --share
partition -p =
power =
prefer =
priority =
profile =
propagate ?
qos -q =
quiet -Q
reboot
reservation =
segment =
signal =
sockets-per-node =
spread-job
stepmgr
switches =
test-only
thread-spec =
threads-per-core =
time -t =
time-min =
tmp =
tres-bind =
tres-per-task =
uid =
usage
use-min-nodes
verbose -v
version -V
wckey =
container-image =
container-mounts =
container-workdir =
container-name =
container-save =
container-mount-home
no-container-mount-home
container-remap-root
no-container-remap-root
container-entrypoint
no-container-entrypoint
container-entrypoint-log
container-writable
container-readonly
container-env =
"""
_SRUN = """
accel-bind =
bcast ?
bcast-exclude =
compress ?
cpu-bind --cpu_bind =
disable-status -X
epilog =
exact
external-launcher ?
het-group --pack-group =
immediate -I ?
jobid =
kill-on-bad-exit -K ?
label -l
mpi =
msg-timeout =
multi-prog
no-allocate -Z
overlap
preserve-env -E
prolog =
pty ?
quit-on-interrupt
relative -r =
resv-ports ?
send-libs ?
slurmd-debug =
task-epilog =
task-prolog =
threads -T =
treewidth =
unbuffered -u
wait -W =
x11 ?
"""
_SBATCH = """
array -a =
batch =
export-file =
get-user-env ?
ignore-pbs
kill-on-invalid-dep =
no-requeue
parsable
requeue
wait -W
wait-all-nodes =
wrap =
"""

SRUN = Grammar(table(_BOTH + _SRUN), "getopt")
SBATCH = Grammar(table(_BOTH + _SBATCH), "getopt")
SALLOC = Grammar(
    table(_BOTH + "bell\nchdir -D =\nget-user-env ?\nimmediate -I ?\nkill-command -K ?\nno-bell\nno-shell\nx11 ?"),
    "getopt",
)


def options_end(words: Sequence[str]) -> int:
    """The index in `words` (srun, sbatch or salloc first) of the command that it starts; len(words) when there is none.

    A `:` that separates the parts of a heterogeneous job ends the options, as a command does.
    """
    grammar = {"sbatch": SBATCH, "salloc": SALLOC}.get(words[0].rpartition("/")[2] if words else "", SRUN)
    nowhere = Span(0, 0, 1)
    return grammar.read([Word(raw=each, text=each, shown=each, span=nowhere) for each in words]).end


def sbatch_option(spelling: str) -> OptionSpec | None:
    """What a `#SBATCH` line's option means: "-N", "--nodes", "--node" (a unique prefix)."""
    return SBATCH.find(spelling)
