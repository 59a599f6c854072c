"""mpirun, mpiexec, orterun, mpiexec.hydra: Open MPI's options, and those of Intel MPI and MPICH (Hydra).

Canonical names: "np" (-np, -n, -c), "host" (-H, -host, -hosts), "hostfile" (-hostfile, -machinefile, -f), "npernode"
(-npernode, -N, -ppn, -perhost), "x" (-x, one each time), "mca" (its value is "NAME VALUE"), "genv" (the same).
Source: `mpirun --help all` of Open MPI 4.1, mpirun(1) of 5.0, mpiexec.hydra -help of Intel MPI 2021 and MPICH 4.
"""

from gpudoctor.lint.launchers.grammar import Grammar, table

_OPTIONS = """
np -n -c =
host -H --hosts =
hostfile --machinefile --machine -f =
npernode -N --ppn --perhost --ppr =
x =
mca ==
gmca ==
omca ==
pmixmca ==
prtemca ==
am =
allow-run-as-root
app =
bind-to =
bind-to-core
bind-to-socket
bind-to-none
bycore
bynode
byslot
cartofile --cf =
continuous
cpu-list =
cpu-set =
cpus-per-proc =
cpus-per-rank =
debug -d --debug-devel
debug-daemons
debugger =
default-hostfile =
disable-recovery
display =
display-allocation
display-devel-map
display-map
display-topo
do-not-launch
enable-recovery
get-stack-traces
help -h
hnp =
index-argv-by-rank
launch-agent =
leave-session-attached
map-by =
max-restarts =
max-vm-size =
merge-stderr-to-stdout
nolocal
nooversubscribe
noprefix
novm
npersocket =
ompi-server =
output =
output-filename =
output-proctable
oversubscribe
path =
pernode
personality =
prefix =
preload-files =
preload-binary
quiet -q
rank-by =
rankfile --rf =
report-bindings
report-events =
report-pid =
report-state-on-timeout
report-uri =
runtime-options =
set-cwd-to-session-dir
show-progress
stdin =
tag-output
timeout =
timestamp-output
tune =
use-hwthread-cpus
verbose -v
version -V
wdir --wd =
with-ft =
xml
xterm =
genv ==
genvlist =
genvnone
genvall
genvuser
genvexcl =
env ==
envlist =
envnone
envall
envuser
gwdir =
gpath =
gumask =
ghost =
ghostlist =
hostlist =
configfile =
bootstrap --rmk =
bootstrap-exec =
launcher =
launcher-exec =
iface =
binding =
bind-to-all
topolib =
ranks-per-proc =
rr
grr =
print-rank-map
print-all-exitcodes
prepend-rank -l
prepend-pattern =
outfile-pattern =
errfile-pattern =
ordered-output
demux =
disable-hostname-propagation
localhost =
localroot
usize =
pmi-port
trace
check-mpi ?
s =
cleanup
nthreads =
"""

MPIRUN = Grammar(table(_OPTIONS, single_dash=True), "mpi")
PROGRAMS = (
    "mpirun",
    "mpiexec",
    "orterun",
    "mpiexec.hydra",
    "mpirun.openmpi",
    "mpiexec.openmpi",
    "prterun",
    "mpiexec.mpich",
)
