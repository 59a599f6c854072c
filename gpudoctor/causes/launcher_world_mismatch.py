from gpudoctor.cause import Cause, Fix, Judged, command

CAUSE = Cause(
    id="launcher-world-mismatch",
    title="the ranks that were started are not the world that they were told",
    stages=("rendezvous",),
    kind="launcher",
    blame="environment",
    restart="after a fix",
    judged={
        "mpi-daemon-library": Judged("import", "environment", "after a fix"),
        "step": Judged("scheduler", "user", "after a fix"),
        # two settings that contradict each other, refused by who reads them: no launcher was asked
        "lightning": Judged("config", "user", "after a fix"),
        # what is seen is that some have not come: never started, ended before, or without a way to the others
        **dict.fromkeys(("missing", "store", "torchrun"), Judged("rendezvous", "environment", "not decided")),
    },
    hangs_by="start",
    meaning=(
        "Each rank waits until as many ranks as WORLD_SIZE have joined. Where fewer were started, or two have "
        "the same number, the group is never complete, and all wait until the rendezvous times out."
    ),
    like=("rank-died", "master-unreachable"),
    fix=Fix(
        "Give the same number of nodes and of processes per node on every node, and another node rank on each. "
        "Start as many processes on a node as it has devices (SLURM: by srun, with so many tasks per node).",
        (command("env | grep -E '^(RANK|WORLD_SIZE|LOCAL_WORLD_SIZE|SLURM_NTASKS|SLURM_PROCID)='"),),
    ),
    variants={
        "nodes": (
            "Start all nodes with the same number: {right}, if the nodes seen are all of them. End the "
            "launchers that wait, then start again, on {wrong} with {option} {right}."
        ),
        "more nodes": "Start all nodes with the same number of nodes, and as many of them; most were told {right}.",
        "node ranks": (
            "Give every node a rank of its own, 0 to {last}. End all launchers, for those that wait have "
            "counted the wrong one already, and start {surplus} with the free one."
        ),
        "world sizes": (
            "Start every rank with the same WORLD_SIZE, the number of all ranks together; most were told {usual}."
        ),
        "ranks": (
            "Start every process with a RANK of its own, 0 to {last}: on each node, the node's number "
            "times the ranks a node, plus the local rank."
        ),
        "absent nodes": (
            "Start the job on {which} too, towards the same address, or start all nodes with --nnodes {there}."
        ),
        "absent ranks": (
            "Start as many processes as the world size says: by torchrun on each node, which sets RANK and "
            "WORLD_SIZE itself (SLURM: or by srun with --ntasks-per-node of the ranks a node)."
        ),
        "absent head": "Start rank 0's node, {head}, as well; if it was started, its own output says why it ended.",
        "missing": (
            "Count the processes that were started on all nodes, and look at the logs of those that are missing: they "
            "were not started, ended before, or do not reach this node."
        ),
        "store": (
            "With fewer than the world, look for the ranks that are missing. With more, processes of another run use "
            "the same store: end them, or take another MASTER_PORT."
        ),
        "no-launcher": Fix(
            "Start the script by torchrun, srun with the variables exported, or the framework's launcher. A program "
            "that starts its ranks itself (mp.spawn) needs none: give init_process_group rank= and world_size= there.",
            (command("gpudoctor launch --help"),),
        ),
        "no-address": Fix(
            "Where the program starts its ranks itself (mp.spawn), set both before it does, on several nodes to the "
            "first node's address; it needs no launcher around it.",
            (command('os.environ["MASTER_ADDR"] = "127.0.0.1"'), command('os.environ["MASTER_PORT"] = "29500"')),
        ),
        "step": (
            "Let steps that run beside each other share (--overlap), or divide the resources between them (--exact)."
        ),
        "tasks": "Give srun no more nodes than tasks, and no more tasks than the job has room for.",
        "mpi-daemon-library": Fix(
            "ssh starts {program} there without this shell's LD_LIBRARY_PATH (-x hands it to the ranks only). Where "
            "{library} lies in the lib folder of the MPI itself, start with --prefix FOLDER (the one that holds "
            "bin/{program}; mpirun by its whole path does the same); else put its folder into LD_LIBRARY_PATH at the "
            "top of ~/.bashrc there, or into /etc/ld.so.conf.d and run ldconfig.",
            (command('dirname "$(dirname "$(command -v mpirun)")"'),),
        ),
        "mpi-daemon-path": Fix(
            "ssh starts {program} there without this shell's PATH: start mpirun with --prefix FOLDER (the one that "
            "holds bin/{program}, at the same path on all nodes; mpirun by its whole path does the same), or put that "
            "bin into PATH at the top of ~/.bashrc there, before it returns for shells that are not interactive.",
            (command('dirname "$(dirname "$(command -v mpirun)")"'),),
        ),
        "mpi-daemons": (
            "See that ssh to every host works without a password, and that mpirun and the program lie at the same "
            "path on all of them (--prefix)."
        ),
        "slots": (
            "Ask for as many ranks as there are slots (-np, at most the sum over the hosts), or write slots=N for each "
            "host in the hostfile, with as many as it has GPUs; inside of a scheduler's allocation its tasks are the "
            "slots. --oversubscribe (Open MPI 5: --map-by :OVERSUBSCRIBE) puts more ranks than slots on a host."
        ),
        "srun": "Start python by srun, with --ntasks-per-node as many as devices.",
        "lightning": "Give Trainer(devices=...) the value of --ntasks-per-node, and num_nodes that of --nodes.",
        "accelerate": "Pass --main_process_ip and --main_process_port to accelerate launch on every node.",
        "torchrun": (
            "See that torchrun was started on every node, with the same --nnodes, --rdzv-id and --rdzv-endpoint."
        ),
        "numbered-alike": (
            "Each node, or each task, numbers its own processes from 0: give every node a node rank of its own, or "
            "start as many processes on a node as it has devices (SLURM: by srun, with so many tasks per node)."
        ),
    },
    meanings={
        **dict.fromkeys(("accelerate", "lightning", "mpi-daemons", "slots", "srun", "step", "tasks"), ""),
    },
    confirm=(
        "Count the ranks on all nodes: their RANKs are 0 to WORLD_SIZE - 1, each once. In SLURM compare "
        "SLURM_NTASKS with nodes times devices."
    ),
    foreseen_by=("slurm-gpu-count-differs", "local-world-size-exceeds-gpus"),
    source=("torch rendezvous.py and TCPStore (waitForWorkers); Lightning#6206"),
)
