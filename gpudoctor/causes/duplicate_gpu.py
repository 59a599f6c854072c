from gpudoctor.cause import Cause, Fix, Judged, command

CAUSE = Cause(
    id="duplicate-gpu",
    title="two ranks use the same GPU",
    stages=("communicator",),
    kind="device-ordinal",
    blame="environment",
    restart="after a fix",
    judged={
        "busy": Judged("no-device", "node", "elsewhere"),
    },
    hangs_by="start",
    meaning=("NCCL wants one GPU per rank of a communicator. It ends with an error, and older releases hang."),
    like=("device-not-set",),
    fix=Fix(
        "Choose the GPU by torch.cuda.set_device(int(os.environ['LOCAL_RANK'])) before anything else, and start no "
        "more ranks than GPUs are visible.",
        (command("gpudoctor devices"), command("nvidia-smi --query-compute-apps=gpu_uuid,pid --format=csv")),
    ),
    variants={
        "too many": "Start one rank a GPU: at most {gpus} on {host}, each with a GPU of its own (torchrun "
        "--nproc-per-node={gpus}).",
        "beyond": Fix(
            "A process counts the GPUs that it sees from 0: with CUDA_VISIBLE_DEVICES=2,5 they are cuda:0 and cuda:1, "
            "and cuda:5 is none. Start no more ranks on a node than GPUs are visible (torchrun --nproc-per-node=gpu "
            "starts one for each), and leave CUDA_VISIBLE_DEVICES as the launcher sets it. On AMD's GPUs "
            "HIP_VISIBLE_DEVICES and ROCR_VISIBLE_DEVICES hide them too: set one of the three, and count by that.",
            (command("gpudoctor devices"),),
        ),
        "peer-hidden": Fix(
            "Each process of the node is shown other GPUs only (its own CUDA_VISIBLE_DEVICES; SLURM: --gpus-per-task "
            "or --gpu-bind): give the node's GPUs to all of its tasks (SLURM: --gpus-per-node, --gpu-bind=none), and "
            "let each take the one of its local rank; NCCL_P2P_DISABLE=1 goes without what is refused.",
            (command("gpudoctor devices"),),
        ),
        "busy": Fix(
            "Give every rank its own GPU, end leftover processes by PID, or set the compute mode back to Default.",
            (command("nvidia-smi"), command("gpudoctor check gpu")),
        ),
    },
    confirm=("See which PIDs stand on which GPU, and compare with their LOCAL_RANK."),
    foreseen_by=(
        "local-world-size-exceeds-gpus",
        "cuda-visible-devices-duplicate",
        "slurm-gpu-count-differs",
        "compute-mode-restrictive",
    ),
    source=("NCCL init.cc (Duplicate GPU detected); verl#161"),
)
