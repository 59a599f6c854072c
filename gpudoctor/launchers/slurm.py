"""SLURM: a batch script with one torchrun a node, and the same with one task a rank; another for `nccl-test`.

What a task has to know of itself (its node's rank) is expanded in the task, inside `bash -c '...'`: in the batch shell
SLURM_NODEID and SLURM_PROCID are 0 on every node. srun repeats --cpus-per-task, which 22.05 to 23.02 do not take
over from the header (measured with 22.05.8).

Options of srun, sbatch and salloc: src/common/slurm_opt.c of Slurm 20.11 to 26.11, each release read for since when and
until when; --container-... of the pyxis plugin. Older spellings with an underscore (--cpu_bind) are still taken.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from gpudoctor import command as shell_words
from gpudoctor.launch import words
from gpudoctor.launch.parts import USUAL_GPUS, on_gloo
from gpudoctor.launch.plan import Emission, EmittedFile, LaunchPlan, PasteBlock
from gpudoctor.launcher.grammar import Grammar
from gpudoctor.launcher.traits import Form, LauncherTraits
from gpudoctor.launchers.torchrun import job_name, option, program

OF_ALL = """
    account,-A= acctg-freq= autocomplete=@slurm:23.02 bb= bbf= begin,-b= chdir,-D= cluster-constraint=
    clusters,-M,--cluster= comment= consolidate-segments@slurm:25.11 constraint,-C= container=@slurm:21.08
    container-id=@slurm:23.02 container-type=@slurm:26.05 context=@slurm:21.08 contiguous core-spec,-S=
    cores-per-socket= cpu-freq= cpus-per-gpu= cpus-per-task,-c= deadline= delay-boot= dependency,-d= distribution,-m=
    exclude,-x= exclusive? extra=@slurm:23.02 extra-node-info,-B= gid=!slurm:23.02 gpu-bind= gpu-freq= gpus,-G=
    gpus-per-node= gpus-per-socket= gpus-per-task= gres= gres-flags= help,-h hint= hold,-H job-name,-J= licenses,-L=
    mail-type= mail-user= mcs-label= mem= mem-bind,--mem_bind= mem-per-cpu= mem-per-gpu= mem-update=@slurm:26.05
    mincpus= network= nice? no-kill,-k? nodefile,-F= nodelist,-w= nodes,-N= ntasks,-n= ntasks-per-core=
    ntasks-per-gpu,--ntasks-per-tres= ntasks-per-node,--tasks-per-node= ntasks-per-socket= oom-kill-step?@slurm:24.11
    overcommit,-O oversubscribe,-s,--share partition,-p= power=!slurm:24.05 prefer=@slurm:22.05 priority= profile=
    qos,-q= quiet,-Q reboot reservation= resources=@slurm:25.11 resv-ports? runtime=@slurm:26.11
    segment=@slurm:24.05 signal= sockets-per-node= spread-job spread-segments@slurm:25.11 stepmgr@slurm:24.05 switches=
    thread-spec= threads-per-core= time,-t= time-min= tmp= tres-bind=@slurm:23.11 tres-per-task=@slurm:23.02
    uid=!slurm:23.02 usage use-min-nodes verbose,-v version,-V wckey= container-image= container-mounts=
    container-workdir= container-name= container-save= container-mount-home no-container-mount-home
    container-remap-root no-container-remap-root container-entrypoint no-container-entrypoint
    container-entrypoint-log container-writable container-readonly container-env=
"""
OF_OUTPUT = "error,-e= export= input,-i= open-mode= output,-o= propagate? test-only"
"""salloc has none of these."""
SRUN = Grammar(
    OF_ALL
    + OF_OUTPUT
    + """
        accel-bind= async@slurm:26.05 bcast? bcast-exclude=@slurm:21.08 compress? cpu-bind,--cpu_bind= debugger-test
        disable-status,-X epilog= exact external-launcher?@slurm:23.11 het-group,--pack-group=
        ignore-signals=@slurm:26.05 immediate,-I? interactive jobid= kill-on-bad-exit,-K? label,-l mpi= msg-timeout=
        multi-prog no-allocate,-Z overlap? parsable@slurm:26.05 preserve-env,-E prolog= pty? quit-on-interrupt
        relative,-r= send-libs?@slurm:21.08 slurmd-debug= task-epilog= task-prolog= threads,-T= treewidth=@slurm:23.11
        unbuffered,-u wait,-W= wait-for-children@slurm:25.05 whole x11?
    """,
    "getopt",
)
SBATCH = Grammar(
    OF_ALL
    + OF_OUTPUT
    + """
        array,-a= batch= export-file= external@slurm:25.05 get-user-env? ignore-pbs kill-on-invalid-dep= no-requeue
        parsable requeue? wait,-W wait-all-nodes= wrap=
    """,
    "getopt",
)
SALLOC = Grammar(
    OF_ALL + "bell get-user-env?!slurm:24.11 immediate,-I? kill-command,-K? no-bell no-shell wait-all-nodes= x11?",
    "getopt",
)

PORT = "MASTER_PORT=$((61000 + SLURM_JOB_ID % 4536))"
ADDRESS = 'MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)'
RANKS = "RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID WORLD_SIZE=$SLURM_NTASKS"
BY_SCHEDULER = ("CUDA_VISIBLE_DEVICES",)
"""SLURM sets these for each task."""
TEST = "gpudoctor-nccl-test"
TEST_MINUTES = 30
"""Far more than a test takes; less than a job that stands still may cost."""


def write(plan: LaunchPlan) -> Emission:
    """What to paste. Raises `CannotEmit`."""
    stem = job_name(replace(plan, master_port=0)).removesuffix("-0")
    main, per_rank = f"{stem}.sbatch", f"{stem}-task-per-rank.sbatch"
    return Emission(
        blocks=(PasteBlock("on a login node", f"sbatch {words.word(main)}", 0),),
        files=(
            EmittedFile(main, _script(plan, stem, per_rank=False)),
            EmittedFile(per_rank, _script(plan, stem, per_rank=True), alternative=True),
        ),
        notes=(
            f"{per_rank} (written by -o) starts one task for each rank instead of one torchrun a node; Lightning and "
            "scripts that read RANK and LOCAL_RANK work in both.",
        ),
    )


def _script(plan: LaunchPlan, stem: str, *, per_rank: bool) -> str:
    count = plan.nodes[0].processes
    header = ["#!/bin/bash", *_options(plan, stem, count if per_rank else 1)]
    return "\n".join([*header, "", "set -eu", *_exports(plan), "", *_step(plan, per_rank), ""])


def _options(plan: LaunchPlan, stem: str, tasks: int) -> list[str]:
    """The #SBATCH lines: SLURM reads them up to the first command."""
    count = plan.nodes[0].processes
    options = [f"--job-name={stem}", f"--nodes={len(plan.nodes)}", f"--ntasks-per-node={tasks}"]
    if plan.accelerator == "cuda":
        options.append(f"--gres=gpu:{count}")
    if plan.cpus_per_process:
        options.append(f"--cpus-per-task={plan.cpus_per_process * (count if tasks == 1 else 1)}")
    if plan.hosts_named:
        options.append(f"--nodelist={','.join(node.name for node in plan.nodes)}")
    return [f"#SBATCH {each}" for each in options]


def _exports(plan: LaunchPlan) -> list[str]:
    lines = [
        words.comment("The first node of the job; every task gets these two, for srun hands the environment on."),
        f"export {ADDRESS}",
        words.comment(
            "A port for each job, above those that the kernel hands out to clients (32768-60999); two jobs on one node "
            "hardly ever share it."
        ),
        f"export {PORT}",
    ]
    for variable in (*plan.environment, *(variable for node in plan.nodes for variable in node.environment)):
        if variable.name in BY_SCHEDULER or any(variable.name + "=" in line for line in lines):
            continue
        if variable.reason:
            lines.append(words.comment(f"{variable.name}: {variable.reason}"))
        lines.append(f"export {variable.name}={words.word(variable.value)}")
    lines += [f"unset {name}" for name in plan.leftovers if name not in ("MASTER_ADDR", "MASTER_PORT")]
    return lines


def _step(plan: LaunchPlan, per_rank: bool) -> list[str]:
    srun = ["srun"]
    if plan.cpus_per_process:
        srun.append('--cpus-per-task="$SLURM_CPUS_PER_TASK"')
    srun += ["--kill-on-bad-exit=1", "--wait=60"]
    if per_rank:
        inner = f"{RANKS} exec {words.line([plan.python, *plan.program])}"
        about = "One task a rank; its numbers are expanded in the task, inside the single quotes."
    else:
        count = plan.nodes[0].processes
        options = [
            option(plan, "nnodes", '"$SLURM_NNODES"'),
            option(plan, "nproc-per-node", count),
            option(plan, "node-rank", '"$SLURM_NODEID"'),
            option(plan, "master-addr", '"$MASTER_ADDR"'),
            option(plan, "master-port", '"$MASTER_PORT"'),
        ]
        inner = f"exec {words.line(program(plan))} {' '.join(options)} {words.line(plan.program)}"
        about = "One torchrun a node; SLURM_NODEID is expanded in the task, inside the single quotes."
    end = "--kill-on-bad-exit, --wait: when a rank fails, the others end too, and do not wait until the time limit."
    return [words.comment(about), words.comment(end), f"{' '.join(srun)} bash -c {shell_words.word(inner)}"]


def bandwidth_test(nodes: int, ranks_per_node: int | None, arguments: Sequence[str]) -> str:
    """The command runs in the batch shell, which is on the first node, and reaches the others by srun."""
    gpus = [f"#SBATCH --gpus-per-node={ranks_per_node or USUAL_GPUS}"] if not on_gloo(arguments) else []
    if gpus and ranks_per_node is None:
        gpus.insert(0, words.comment("CHANGE where a node has another number of GPUs:"))
    command = " ".join(map(shell_words.word, ("gpudoctor", "nccl-test", "--nodes", str(nodes), *arguments)))
    lines = [
        "#!/bin/bash",
        words.comment("gpudoctor nccl-test in an allocation of its own. Submit it with: sbatch FILE"),
        *(f"#SBATCH --{each}" for each in (f"job-name={TEST}", f"output={TEST}-%j.out", f"nodes={nodes}")),
        *(f"#SBATCH --{each}" for each in ("ntasks-per-node=1", "exclusive", f"time={TEST_MINUTES}")),
        *gpus,
        "",
        words.comment("Where gpudoctor is not on the PATH of the shell that submits: activate its environment here."),
        f"exec {command}\n",
    ]
    return "\n".join(lines)


LAUNCHER = LauncherTraits(
    name="slurm",
    forms=(Form(launcher="srun", programs=("srun",), grammar=SRUN),),
    bare=True,
    reads_master=True,
    ambiguous=("gres", "ntasks-per-node", "gpus-per-task", "cpus-per-task"),
    runs_as="srun",
    kept_numbers="nodes N ntasks n ntasks-per-node cpus-per-task c gpus G gpus-per-node gpus-per-task mpi",
    line_prefixes=(r"\s{0,6}(?P<rank>\d{1,6}): ",),  # srun -l
    write=write,
    bandwidth_test=bandwidth_test,
    not_in_a_test=("--hosts", "--hostfile"),  # SLURM places its nodes
    fixed="an allocation has a fixed number of nodes",
    even="a batch script asks for as many on each",
    scheduler="slurm",
)
