from gpudoctor.cause import Cause, Fix, Judged, command

CAUSE = Cause(
    id="volume-not-mounted",
    title="a volume of the pod could not be mounted",
    stages=("rendezvous",),
    kind="storage",
    blame="environment",
    restart="after a fix",
    judged={
        "helper": Judged("dependency-mismatch", "node", "after a fix"),
        "kernel": Judged("storage", "node", "elsewhere"),
        "denied": Judged("permission", "environment", "after a fix"),
        "host-path": Judged("file-missing", "environment", "after a fix"),
        "key": Judged("config", "user", "after a fix"),
    },
    hangs_by="start",
    meaning="Kubernetes starts no container before all volumes of its pod are mounted; the other ranks wait for it.",
    like=("storage-stall", "scheduler-refused"),
    fix=Fix(
        "See that the claim is bound, that its secret or config map is there, that the node reaches the storage, and "
        "that no pod of another node holds a volume that only one may hold (ReadWriteOnce).",
        (command("kubectl get pvc,pv"), command("kubectl get events --sort-by .lastTimestamp | grep -i volume")),
    ),
    variants={
        "helper": Fix(
            "The node has no helper that mounts this kind of file system: install it on the nodes (nfs-common on "
            "Debian and Ubuntu, nfs-utils on Red Hat and Amazon Linux; the client of Lustre, CIFS or the cloud).",
            (command("ls /sbin/mount.*"),),
        ),
        "kernel": Fix(
            "The node's kernel has no such file system: load its module there (modprobe nfs; of Lustre and the like "
            "the "
            "client that was made for this kernel), install the kernel's package of further modules where it is not "
            "found, or place the pod on a node that has it.",
            (command("cat /proc/filesystems"),),
        ),
        "denied": Fix(
            "The file server refuses that mount: let it export the path to this node, and in a cloud let the file "
            "system's policy and the driver's role allow it (access points too).",
        ),
        "unreached": Fix(
            "The file server does not answer from that node: its name must resolve there, and the way be open (a "
            "security group or firewall that lets NFS's port 2049 pass, a mount target in the node's subnet): from "
            "that node, nc -vz with the server's name and 2049 tries it.",
        ),
        "no-export": Fix("The file server has no such folder or export: compare the path, or make it there."),
        "csi": Fix(
            "The driver of that storage (CSI) does not run on the node: look at its daemon set there, and at its "
            "taints and labels.",
            (command("kubectl get csidrivers,csinodes"),),
        ),
        "attached": Fix(
            "Another node still holds the volume, which only one may hold (ReadWriteOnce): end the pod there, wait "
            "until it is detached, or take a volume that several may hold (ReadWriteMany).",
            (command("kubectl get volumeattachments"),),
        ),
        "key": Fix(
            "The config map or secret is there and has no entry of the name that the volume's items ask for: compare "
            "the names, and add the entry or correct the item.",
            (command("kubectl describe configmaps,secrets"),),
        ),
        "host-path": Fix(
            "Make that folder or file on the node, as the hostPath's type wants it, or mount another one."
        ),
    },
    confirm="The events of the pod name the volume and the reason.",
    source="kubernetes pkg/kubelet/volumemanager",
)
