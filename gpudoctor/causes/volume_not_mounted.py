from gpudoctor.cause import Cause, Fix, command

CAUSE = Cause(
    id="volume-not-mounted",
    title="a volume of the pod could not be mounted",
    stages=("rendezvous",),
    kind="storage",
    blame="environment",
    restart="after a fix",
    hangs_by="start",
    meaning="Kubernetes starts no container before all volumes of its pod are mounted; the other ranks wait for it.",
    like=("storage-stall", "scheduler-refused"),
    fix=Fix(
        "See that the claim is bound, that its secret or config map is there, that the node reaches the storage, and "
        "that no pod of another node holds a volume that only one may hold (ReadWriteOnce).",
        (command("kubectl get pvc,pv"), command("kubectl get events --sort-by .lastTimestamp | grep -i volume")),
    ),
    confirm="The events of the pod name the volume and the reason.",
    source="kubernetes pkg/kubelet/volumemanager",
)
