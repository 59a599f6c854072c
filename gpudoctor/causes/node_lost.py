"""A node went away while the job ran."""

from gpudoctor.cause import Cause, Fix, Judged, command

CAUSE = Cause(
    id="node-lost",
    title="a node was lost while the job ran",
    stages=("rendezvous", "communicator", "first collective", "training", "end"),
    kind="node-lost",
    blame="node",
    restart="elsewhere",
    judged={
        **dict.fromkeys(
            (
                "launch",
                "launch-credential",
                "launch-prolog",
                "launch-slow",
                "launch-user",
                "launch-unreached",
                "not-ready",
            ),
            Judged("scheduler", "node", "elsewhere"),
        ),
        "launch-layout": Judged("scheduler", "user", "after a fix"),
    },
    hangs_by="gone",
    while_running="while nobody waits",
    meaning=(
        "The connection to the node, what watches over it there, or the node itself has ended, or it is so short of "
        "memory or processors that it cannot answer. Its ranks can no longer be seen, and the others wait for them."
    ),
    meanings=dict.fromkeys(
        (
            *("launch", "launch-credential", "launch-prolog", "launch-slow", "launch-user", "launch-unreached"),
            *("launch-layout", "not-ready"),
        ),
        "The tasks of that node did not start. Those of other nodes wait for them, or the step ends.",
    ),
    like=("rank-died", "master-unreachable"),
    fix=Fix(
        "See whether the node is up, and what its log says of that time (out of memory, a link that went down).",
        (command("uptime; sudo dmesg -T | tail -n 40"),),
    ),
    variants={
        "unreached": Fix(
            "See from the scheduler, its console or the cloud's whether {nodes} is up and has its network. What ran "
            "there is lost to the others, which wait until their time-out: end the job, and start it without that "
            "node (--exclude in SLURM).",
        ),
        "launch-credential": Fix(
            "The node does not take the job's credential: munge there has another key or is not running, or its clock "
            "is off by minutes (or the step waited longer than the credential holds). Compare the clocks, and the key, "
            "with the controller's; until then leave the node out (--exclude).",
            (command("date; munge -n | unmunge | head -n 3"), command("systemctl status munge chronyd")),
        ),
        "launch-prolog": Fix(
            "The site's prolog failed on that node, which SLURM drains then: slurmd's log there has its output (a "
            "mount, a GPU check, a full disk). Leave the node out (--exclude) and tell who runs the cluster.",
            (command("sinfo --list-reasons"),),
        ),
        "launch-layout": Fix(
            "The step asks that node for more, or otherwise, than the job has there: make --ntasks-per-node times "
            "--cpus-per-task no more than the CPUs that the job was given, give srun the same --cpus-per-task as "
            "sbatch "
            "(newer srun does not inherit it: SRUN_CPUS_PER_TASK), and leave --cpu-bind and --distribution out first.",
            (command("scontrol show job -d $SLURM_JOB_ID | grep -E 'NumCPUs|CPU_IDs'"),),
        ),
        "launch-user": Fix(
            "That node does not know the job's user: its directory service (LDAP, SSSD, NIS) does not answer, or the "
            "account is not there. Leave it out (--exclude) until it does.",
            (command("id $USER"),),
        ),
        "launch-unreached": Fix(
            "srun does not reach slurmd on that node: it is down or overloaded, a firewall drops the ports of srun "
            "(SrunPortRange) or of slurmd (6818), the node's name leads to another address, or munge's key there is "
            "another. Leave the node out (--exclude) and look at its slurmd.",
            (command("sinfo --list-reasons"), command("scontrol ping")),
        ),
        "launch-slow": Fix(
            "A node needs minutes to start a task: its prolog or a shared file system stands still there, it is "
            "overloaded, or its word does not come back to srun (SrunPortRange in a firewall). Find the nodes whose "
            "tasks wrote nothing, leave them out (--exclude), and look at slurmd's log there.",
            (command("sinfo --list-reasons"),),
        ),
        "step-lost": Fix(
            "The node went down, its slurmstepd was killed (by the OOM killer too), or the way there is cut. Its "
            "name is line {number} of the list below, counted from 0: leave it out (--exclude), and read its kernel's "
            "and slurmd's log.",
            (
                command("scontrol show hostnames $SLURM_STEP_NODELIST"),
                command("sinfo --list-reasons"),
            ),
        ),
        "not-ready": Fix(
            "Nodes that are switched on for a job, or whose prolog still runs, were not ready in time. Submit it "
            "without them (--exclude), and have slurmd's log there read.",
            (command("sinfo --list-reasons"),),
        ),
        "launch": Fix(
            "Leave that node out (--exclude) and look at its slurmd; a held job goes on with scontrol release.",
            (command("sinfo --list-reasons"),),
        ),
    },
    confirm=("Log in there, and look at the scheduler's state of the node."),
    source=("our lab: a host that is switched off or frozen while ranks measure"),
)
