from gpudoctor.cause import Cause, Fix, Judged, command

CAUSE = Cause(
    id="device-not-set",
    title="ranks do not choose their own GPU",
    stages=("communicator", "first collective"),
    kind="device-ordinal",
    restart="after a fix",
    judged={"model": Judged("argument", "program", "after a fix")},
    hangs_by="start",
    meaning=(
        "Without torch.cuda.set_device every process works on GPU 0, or a barrier guesses the GPU from the "
        "rank. Where the guess is wrong, communicators are made over wrong devices, and the ranks wait for each other."
    ),
    like=("duplicate-gpu",),
    fix=Fix(
        "Call torch.cuda.set_device(int(os.environ['LOCAL_RANK'])) first and hand the device to "
        "init_process_group(device_id=...), or to barrier(device_ids=[...]).",
        (command("nvidia-smi --query-compute-apps=gpu_uuid,pid --format=csv"),),
    ),
    variants={
        "model": "Move the model to the rank's own device before it is wrapped: the GPU that LOCAL_RANK numbers.",
    },
    meanings={
        "model": "",
    },
    confirm=("All ranks' PIDs hold memory on GPU 0; torch warned that the devices used by this process are unknown."),
    source=("torch distributed_c10d.py and ProcessGroupNCCL (guessDeviceId)"),
)
