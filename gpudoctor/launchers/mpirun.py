"""Open MPI's mpirun, run once on the head: it reaches the hosts by ssh or the scheduler, and starts every rank.

torch knows nothing of OMPI_*: a shell around each rank says RANK, LOCAL_RANK and WORLD_SIZE. Without -x a variable
stays on the head, and without -bind-to none Open MPI binds each of two ranks to one core (measured with 4.1.4).

Canonical names: "np" (-np, -n, -c), "host" (-H, -host, -hosts), "hostfile" (-hostfile, -machinefile, -f), "npernode"
(-npernode, -N, -ppn, -perhost), "x" (-x, one each time), "mca" (its value is "NAME VALUE"), "genv" (the same).
Source: `mpirun --help all` of Open MPI 4.1, mpirun(1) of 5.0, mpiexec.hydra -help of Intel MPI 2021 and MPICH 4.
"""

import re
from collections import Counter

from gpudoctor import command as shell_words
from gpudoctor.launch import words
from gpudoctor.launch.plan import CannotEmit, Emission, LaunchPlan, PasteBlock
from gpudoctor.launcher.grammar import Grammar
from gpudoctor.launcher.traits import Form, LauncherTraits
from gpudoctor.lint.model import LintLaunch

OPTIONS = """
    np,-n,-c= host,-H,--hosts= hostfile,--machinefile,--machine,-f= npernode,-N,--ppn,--perhost,--ppr= x= mca== gmca==
    omca== pmixmca== prtemca== am= allow-run-as-root app= bind-to= bind-to-core bind-to-socket bind-to-none bycore
    bynode byslot cartofile,--cf= continuous cpu-list= cpu-set= cpus-per-proc= cpus-per-rank= debug,-d,--debug-devel
    debug-daemons debugger= default-hostfile= disable-recovery display= display-allocation display-devel-map
    display-map display-topo do-not-launch enable-recovery get-stack-traces help,-h hnp= index-argv-by-rank
    launch-agent= leave-session-attached map-by= max-restarts= max-vm-size= merge-stderr-to-stdout nolocal
    nooversubscribe noprefix novm npersocket= ompi-server= output= output-filename= output-proctable oversubscribe
    path= pernode personality= prefix= preload-files= preload-binary quiet,-q rank-by= rankfile,--rf= report-bindings
    report-events= report-pid= report-state-on-timeout report-uri= runtime-options= set-cwd-to-session-dir
    show-progress stdin= tag-output timeout= timestamp-output tune= use-hwthread-cpus verbose,-v version,-V wdir,--wd=
    with-ft= xml xterm= genv== genvlist= genvnone genvall genvuser genvexcl= env== envlist= envnone envall envuser
    gwdir= gpath= gumask= ghost= ghostlist= hostlist= configfile= bootstrap,--rmk= bootstrap-exec= launcher=
    launcher-exec= iface= binding= bind-to-all topolib= ranks-per-proc= rr grr= print-rank-map print-all-exitcodes
    prepend-rank,-l prepend-pattern= outfile-pattern= errfile-pattern= ordered-output demux=
    disable-hostname-propagation localhost= localroot usize= pmi-port trace check-mpi? s= cleanup nthreads=
"""
RANKS = "RANK=$OMPI_COMM_WORLD_RANK LOCAL_RANK=$OMPI_COMM_WORLD_LOCAL_RANK WORLD_SIZE=$OMPI_COMM_WORLD_SIZE"


def write(plan: LaunchPlan) -> Emission:
    """What to paste. Raises `CannotEmit`."""
    unknown = [node.name for node in plan.nodes if not node.known]
    if unknown:
        raise CannotEmit(
            "mpirun starts the other nodes itself and needs their names: --hosts n1,n2,... or --hostfile F"
        )
    own = sorted({variable.name for node in plan.nodes for variable in node.environment})
    slots = ",".join(f"{_host(node.name)}:{node.processes}" for node in plan.nodes)
    variables = words.rendezvous(plan, *plan.environment)
    passed_on = [part for name in plan.exported for part in ("-x", name)]
    for variable in variables:
        passed_on += ["-x", f"{variable.name}={variable.value}"]
    root = ["--allow-run-as-root"] if plan.as_root else []
    placed = ["-np", str(plan.world_size)]
    if len(plan.nodes) > 1:
        placed += ["-H", slots]
    command = ["mpirun", *root, *placed, "-bind-to", "none", "-map-by", "slot", *passed_on]
    inner = f"{RANKS} exec {words.line([plan.interpreter or plan.python, *plan.program])}"
    text = f"{words.line(words.without_leftovers(plan, command))} bash -c {shell_words.word(inner)}"
    comments = [
        words.comment(f"{plan.world_size} ranks, {slots}; mpirun starts them all, by ssh or the scheduler."),
        words.comment(
            "bash -c: Open MPI numbers its ranks in OMPI_*, which torch does not read; the shell around each rank says "
            "it in torch's words."
        ),
        words.comment("-bind-to none: else Open MPI binds a rank to one core (2 ranks) or one socket."),
        *words.reasons(variables),
    ]
    if plan.as_root:
        comments.append(words.comment("--allow-run-as-root: you are root, which mpirun refuses otherwise."))
    notes = ["The script reads RANK, LOCAL_RANK and WORLD_SIZE: init_process_group(backend) without further arguments."]
    if own:
        notes.append(
            f"{', '.join(own)} differ between the nodes, and mpirun passes one value to all: set them on each node "
            "(~/.bashrc is not read by its ssh), or use --framework torchrun."
        )
    where = f"on the head only, {plan.nodes[0].name}"
    return Emission(blocks=(PasteBlock(where, "\n".join([*comments, text]), 0),), notes=tuple(notes))


def _host(name: str) -> str:
    if ":" in name:
        raise CannotEmit(
            f"-H {name}: mpirun divides names from slots by a colon; give the node's name, not its address"
        )
    return name


def counts(launch: LintLaunch) -> tuple[int | None, int | None]:
    """Nodes and ranks on each: of -npernode, -ppn and --map-by ppr:N:node, or of hosts whose slots are filled."""
    total, each = (int(text) if re.fullmatch(r"\d{1,6}", text, re.ASCII) else None
                   for text in (launch.text("np") or "", launch.text("npernode") or ""))  # fmt: skip
    ppr = re.match(r"ppr:(\d{1,4}):node\b", launch.text("map-by") or "", re.ASCII)
    each = int(ppr[1]) if ppr else 1 if launch.option("pernode") is not None else each
    if each:
        return (total // each if total and total % each == 0 else None), each
    slots: Counter[str] = Counter()
    for part in (launch.text("host") or "").split(","):
        name, _, number = part.partition(":")
        if not name or not re.fullmatch(r"\d{0,4}", number, re.ASCII):
            return None, None
        slots[name] += int(number or 1)
    if not total or slots.total() != total or len(set(slots.values())) != 1:
        return None, None
    return len(slots), total // len(slots)


LAUNCHER = LauncherTraits(
    name="mpirun",
    forms=(
        Form(
            launcher="mpirun",
            programs=(
                *("mpirun", "mpiexec", "orterun", "mpiexec.hydra", "mpirun.openmpi", "mpiexec.openmpi", "prterun"),
                "mpiexec.mpich",
            ),
            grammar=Grammar(OPTIONS, "mpi"),
        ),
    ),
    bare=True,
    counts=counts,
    reads_master=True,
    total_option="np",
    decisive=("np",),
    unmistakable=("mca", "bind-to", "map-by", "npernode", "oversubscribe", "allow-run-as-root"),
    runs_as="mpirun",
    kept_numbers="n np npernode ppn",
    # --tag-output: "[1,3]<stderr>:", and [host] where it is asked for.
    line_prefixes=(r"\[\d{1,6},(?P<rank>\d{1,6})\](?:\[[^\]]{0,80}\])?<std(?:out|err|diag)>:?\s?",),
    write=write,
    fixed="MPI's world is fixed",
)
