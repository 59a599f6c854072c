from gpudoctor.cause import Cause, Fix, Judged, command

CAUSE = Cause(
    id="scheduler-refused",
    title="the scheduler did not start the job",
    stages=("rendezvous",),
    kind="scheduler",
    blame="user",
    restart="after a fix",
    judged={
        **dict.fromkeys(("pod", "pod-both", "pod-count"), Judged("scheduler", "scheduler", "as it is")),
        **dict.fromkeys(("devices", "step-devices", "ray"), Judged("scheduler", "user", "after a fix")),
        "node": Judged("scheduler", "user", "after a fix"),
        "script": Judged("config", "user", "after a fix"),
        "no-script": Judged("file-missing", "user", "after a fix"),
        "log-folder": Judged("file-missing", "user", "after a fix"),
        "directive": Judged("argument", "user", "after a fix"),
        "nothing": Judged("argument", "user", "after a fix"),
        "multi-prog": Judged("config", "user", "after a fix"),
        "quota": Judged("quota", "user", "after a fix"),
        "account": Judged("config", "user", "after a fix"),
        "address": Judged("name-resolution", "scheduler", "after a fix"),
        "time": Judged("config", "user", "after a fix"),
        "controller": Judged("scheduler", "scheduler", "as it is"),
        "munge": Judged("scheduler", "node", "not decided"),
        "busy": Judged("scheduler", "scheduler", "as it is"),
        "credential": Judged("scheduler", "node", "not decided"),
        "daemon": Judged("scheduler", "node", "elsewhere"),
        **dict.fromkeys(("admission", "admission-room", "admission-place"), Judged("scheduler", "node", "elsewhere")),
        "admission-plugin": Judged("scheduler", "node", "as it is"),
        "admission-nvml": Judged("driver", "node", "elsewhere"),
        "admission-lost": Judged("device-lost", "node", "elsewhere"),
    },
    hangs_by="start",
    meaning=(
        "The job or a part of it was refused, or waits for what the cluster cannot give. Its ranks were never started; "
        "those of other nodes wait for them."
    ),
    like=("launcher-world-mismatch",),
    fix=Fix("Ask for what the cluster has, in a partition, account and quota that the user may use."),
    variants={
        "pod": Fix(
            "Look at what the nodes have left, and ask for no more of it than one of them has.",
            (command("kubectl describe nodes | grep -A 12 -E '^Name:|Allocated resources'"),),
        ),
        "pod-both": Fix(
            "Look at what the nodes have left, and ask for no more of it than one of them has. Tolerations and "
            "selectors of the pod must fit the GPU nodes' taints and labels.",
            (command("kubectl describe nodes | grep -A 12 -E '^Name:|Allocated resources'"),),
        ),
        "pod-count": Fix(
            "The nodes hold as many pods as they may (kubelet's maxPods; in clouds also by their addresses): end pods "
            "that are done, or add a node.",
            (command("kubectl get nodes -o custom-columns=NAME:.metadata.name,PODS:.status.allocatable.pods"),),
        ),
        "pod-ports": Fix(
            "The pod asks for a port of the host that another pod has on each node: leave hostPort out, or take "
            "another.",
            (command("kubectl get pods --all-namespaces -o wide"),),
        ),
        "pod-taint": Fix(
            "Give the pod a toleration for the taint that the nodes have ({reason}), as the cluster's other GPU jobs "
            "do (tolerations: key, operator: Exists, effect), or have the taint taken away.",
            (command("kubectl get nodes -o custom-columns=NAME:.metadata.name,TAINTS:.spec.taints"),),
        ),
        "pod-volume": Fix(
            "The pod waits for its volume ({reason}): make the claim that it names, in its namespace, with a storage "
            "class that exists; a volume that is bound to one zone or node keeps the pod there.",
            (command("kubectl get pvc,pv,storageclass"),),
        ),
        "pod-selector": Fix(
            "No node has the labels that the pod's nodeSelector or affinity wants ({reason}): compare them with those "
            "of the nodes, or take them out.",
            (command("kubectl get nodes --show-labels"),),
        ),
        "admission": Fix(
            "The node's kubelet had fewer healthy devices than the scheduler counted: another pod holds them still, a "
            "GPU there failed, or the device plugin started anew. Delete the pod so that it is placed again, and keep "
            "that node out (kubectl cordon) until its devices are whole.",
            (command("kubectl describe nodes | grep -A 12 -E '^Name:|Capacity|Allocatable'"), command("nvidia-smi -L")),
        ),
        "admission-room": Fix(
            "When the pod came, the node had less left than the scheduler had counted: another pod was faster, or one "
            "without the scheduler runs there. Delete the pod so that it is placed again.",
            (command("kubectl describe nodes | grep -A 12 -E '^Name:|Allocated resources'"),),
        ),
        "admission-place": Fix(
            "The node's topology manager found no place where processors, devices and memory lie together as its "
            "policy wants: ask for what one NUMA node holds, delete the pod so that it is placed again, or relax the "
            "kubelet's topologyManagerPolicy.",
            (command("kubectl describe nodes | grep -A 12 -E '^Name:|Allocated resources'"),),
        ),
        "admission-plugin": Fix(
            "The node's device plugin went away or gave no answer while the pod was given its devices: see whether its "
            "pod there runs or restarts, and why (its own log); then delete this pod so that it is placed again.",
            (command("kubectl get pods --all-namespaces -o wide | grep -i device-plugin"),),
        ),
        "admission-nvml": Fix(
            "The node's device plugin gets an error from NVML: see nvidia-smi on that node, start the plugin's pod "
            "there again once that works, and keep the node out (kubectl cordon) until then.",
            (command("nvidia-smi"), command("kubectl get pods --all-namespaces -o wide | grep -i device-plugin")),
        ),
        "admission-lost": Fix(
            "A GPU of that node is lost to the driver, and while it is every pod with GPUs is refused there: keep the "
            "node out (kubectl cordon), look for Xids, reset the GPU or reboot, and start the device plugin again.",
            (command("nvidia-smi"), command("sudo dmesg --ctime | grep -iE 'NVRM|Xid'")),
        ),
        "queue-limits": Fix(
            "No queue takes what is asked: compare nodes, processors, GPUs, memory and wall time with each queue's "
            "limits, and ask for less or for the queue that has it.",
            (command("qstat -Qf || qconf -sql"),),
        ),
        "munge": Fix(
            "munge does not run on this machine, or its socket is not seen here: start it (the same key as the "
            "controller's, the clock right); in a container hand /run/munge in, with slurm.conf, or submit from "
            "outside of it.",
            (command("systemctl status munge"), command("ls -l /run/munge")),
        ),
        "quota": Fix(
            "Ask for less, end other jobs of this account or namespace, or have its limit raised.",
            (command("sacctmgr show assoc where user=$USER format=account,qos,maxjobs,grptres"),),
        ),
        "devices": Fix(
            "Ask for devices as the cluster names them and as many as one node has; look there for a GPU that failed.",
            (command("sinfo --format '%P %D %G %T'"),),
        ),
        "ray": Fix(
            "Hold what is asked for against what Ray counts (the lines of Resources): ask for no more GPUs than one "
            "node has (n_gpus_per_node and its like), or add nodes with `ray start --address=`. Where Ray counts fewer "
            "GPUs than the node has, CUDA_VISIBLE_DEVICES hid them when it started, or it found none: start it anew "
            "with --num-gpus (ray.init(num_gpus=...)), and before it see that nvidia-smi answers there.",
            (command("ray status"),),
        ),
        "step-devices": Fix(
            "The step asks for GPUs that its job has not, or by another name: give srun the --gres or --gpus of the "
            "job. Where it was submitted from inside of another job, that one's SLURM_ variables go along: unset them, "
            "or submit from a login node.",
            (command("env | grep -E '^SLURM_.*(GRES|GPUS|TRES)'"),),
        ),
        "node": Fix(
            "No node of that partition has all that is asked of one: hold each part of the request against what they "
            "have. CPUs: --cpus-per-task times the tasks of a node (--cpus-per-gpu only where the site takes it: "
            "write --cpus-per-task); memory (--mem, --mem-per-cpu); tasks per node; GPUs by the cluster's own name "
            "and number (--gres); features (--constraint).",
            (command("sinfo --format '%P %D %c %m %G %f'"),),
        ),
        "account": Fix(
            "Give an account, partition and QOS that the user may use.",
            (command("sacctmgr show assoc where user=$USER format=account,partition,qos"),),
        ),
        "address": Fix(
            "The node's name must resolve where srun runs: compare slurm.conf (NodeAddr), DNS and /etc/hosts with the "
            "address that the node has now (in a cloud it comes back with another), and have the controller read it "
            "again.",
            (command("sudo scontrol reconfigure"),),
        ),
        "time": Fix(
            "Ask for a time (--time) that partition and QOS allow; without one the partition's default must be within.",
            (command("sinfo --format '%P %l %L'"),),
        ),
        "counts": Fix(
            "Make nodes, tasks and CPUs agree, and keep them within the allocation and the partition: --nodes times "
            "--ntasks-per-node is --ntasks, and times --cpus-per-task no more than the nodes have.",
            (command("sinfo --format '%P %D %c %l'"),),
        ),
        "versions": (
            "The commands that run here and the cluster's daemons are of SLURM releases that do not speak to each "
            "other: use those of the cluster (its module or login node; a container or PATH may bring others), or have "
            "the one that lags updated."
        ),
        "mpi-plugin": Fix(
            "This SLURM has not the plugin that --mpi (or SLURM_MPI_TYPE) names, or it could not start: give one that "
            "srun lists, or none for ranks that do not use MPI (torch's do not).",
            (command("srun --mpi=list"),),
        ),
        "other": (
            "What is refused, and why, the scheduler says itself ({reason}). Take that option out, or ask who runs the "
            "cluster where it is a rule of the site's own (a submit plugin, a limit)."
        ),
        "busy": Fix("Submit again later, or without asking for it at once (--immediate).", (command("sinfo"),)),
        "dependency-wrong": "Give --dependency the number of a job that is there, in the form afterok:NUMBER.",
        "reservation": Fix(
            "Ask for a reservation that is active and lists this user or account, or for none.",
            (command("scontrol show reservation"),),
        ),
        "constraint": Fix(
            "Ask for features (--constraint) that the nodes have.", (command("sinfo --format '%P %D %f'"),)
        ),
        "partition": Fix(
            "Give a partition (-p) that has the nodes asked for.", (command("sinfo --format '%P %a %l %N'"),)
        ),
        "option": "Correct the option that the message names, or leave it out.",
        "over": "That job has ended, or is no longer as it was: look at its record (sacct -j), and submit it anew.",
        "credential": "Have the node looked at: munge's key, the clock and the users must be the same there as on the "
        "controller. Until then leave the node out (--exclude).",
        "daemon": "Leave the node out (--exclude): its daemon cannot start jobs (a full or read-only spool folder, a "
        "prolog that fails); slurmd's log there says why.",
        "dependency": "End the job and submit it again after the one that it depends on has succeeded.",
        "script": "Begin the script with #!/bin/bash, a line that names its interpreter.",
        "directive": "An option of #SBATCH and its value are one word with = or two words, and a note behind them "
        "begins with #: correct {word}, or take it out.",
        "nothing": "Give srun the program behind its options, and sbatch a script that has lines (a disk that was full "
        "when it was written leaves an empty file).",
        "multi-prog": "Correct {path}: each line is task numbers, a program that the nodes have, and its arguments; "
        "every task of --ntasks needs one, and * stands last.",
        "log-folder": "SLURM makes no folders: make the one that --output, --error or --input names before the job, "
        "where every node of it sees it and the user may write.",
        "no-script": "Give the path of the script as the host sees it on which sbatch runs.",
        "controller": Fix(
            "Submit again; where it stays so, the controller is down or overloaded.", (command("sinfo"),)
        ),
    },
    meanings={
        **dict.fromkeys(("daemon", "log-folder"), ""),
    },
    confirm="The scheduler's own record of the job names the reason (squeue, scontrol show job, kubectl describe pod).",
    source="slurm slurm_errno.c; kubernetes scheduler, kubelet and resourcequota",
)
