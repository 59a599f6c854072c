"""Starters of tasks of other schedulers: jsrun (LSF, Summit), aprun (ALPS), ibrun (TACC), prun, lrun (LLNL),
ccc_mprun (CEA).

Like mpirun, they start a program as it is, once for each rank; the ranks read PMI's and the scheduler's own variables.
Source: jsrun(1) of IBM's Job Step Manager, aprun(1) of ALPS, ibrun -h of TACC, lrun(1) of LLNL, ccc_mprun -h of CEA.
"""

from gpudoctor.launcher.grammar import Grammar
from gpudoctor.launcher.traits import Form, LauncherTraits

JSRUN = """
    nrs,-n= rs_per_host,-r= tasks_per_rs,-a= cpu_per_rs,-c= gpu_per_rs,-g= np,-p= bind,-b= launch_distribution,-d=
    latency_priority,-l= env,-E= smpiargs,-M= stdio_mode,-k= stdio_stdout,-o= stdio_stderr,-e= memory_per_rs,-m=
    erf_input,-U= immediate,-i exit_on_error,-X= chdir,-h= use_reserved,-R use_spindle progress=
    stdio_input,-t= stdio_stdin,-I=
"""
APRUN = """
    np,-n= npernode,-N= depth,-d= cpu-binding,--cc,-cc= pes-per-numa,-S= cpus,-j= bypass-app-transfer,-b env,-e=
    quiet,-q node-list,-L= memory,-m= strict-memory,-ss exclusive,-F= specialized,-r= reserve,-R= time,-t= p-state=
"""
LRUN = "nodes,-N= np,-n= npernode,-T= bind,--mpibind= smt= pack gpus,-g= cores,-c= mem,-m= env,-E= verbose,-v"
MPRUN = "np,-n= nodes,-N= cpus,-c= partition,-p= time,-T= exclusive,-x env,-E= memory,-M= project,-A= container,-C="

LAUNCHER = LauncherTraits(
    name="jsrun",
    forms=(
        Form(launcher="jsrun", programs=("jsrun",), grammar=Grammar(JSRUN, "getopt", prefixes=False)),
        Form(launcher="aprun", programs=("aprun",), grammar=Grammar(APRUN, "mpi")),
        Form(launcher="lrun", programs=("lrun",), grammar=Grammar(LRUN, "mpi")),
        Form(launcher="ccc_mprun", programs=("ccc_mprun",), grammar=Grammar(MPRUN, "mpi")),
        Form(launcher="ibrun", programs=("ibrun", "prun"), grammar=Grammar("np,-n= offset,-o= npernode,-N=", "mpi")),
    ),
    bare=True,
    reads_master=True,
    total_option="np",
    fixed="a job step's world is fixed",
)
