from gpudoctor.cause import Cause, Fix, Judged, command

CAUSE = Cause(
    id="container-not-started",
    title="the container was not started",
    stages=("rendezvous",),
    kind="config",
    blame="environment",
    restart="after a fix",
    judged={
        "daemon-permission": Judged("permission", "user", "after a fix"),
        "bind": Judged("file-missing", "environment", "after a fix"),
        "sandbox": Judged("config", "node", "elsewhere"),
    },
    hangs_by="start",
    meaning="The container's runtime refused it or could not make it. The ranks in it never start.",
    like=("image-not-pulled", "volume-not-mounted"),
    fix=Fix("Correct what the runtime's message names."),
    variants={
        "daemon-permission": Fix(
            "Have your user put into the group docker, or use rootless docker or podman.",
            (command("id -nG"), command("ls -l /var/run/docker.sock")),
        ),
        "config": Fix(
            "Make the {kind} {name} in the pod's namespace (they are no other namespace's), or write its right name "
            "into "
            "the pod's env, envFrom or volumes; optional: true lets it be missing.",
            (command("kubectl get secrets,configmaps"),),
        ),
        "config-refused": Fix(
            "Its message, in `kubectl describe pod`, says what of the spec: a secret or config map, or a key of one, "
            "that is not in the namespace, or an image that runs as root under runAsNonRoot.",
            (command("kubectl describe pod"), command("kubectl get secrets,configmaps")),
        ),
        "refused": Fix(
            "Read the runtime's message in `kubectl describe pod` (State, Last State, Events): a program that the "
            "image does not have, a mount, or a device that the node does not give.",
            (command("kubectl describe pod"),),
        ),
        "sandbox": Fix(
            "Have the node's container runtime and network plugin repaired; other nodes may be well. A runtime called "
            "nvidia is configured by nvidia-ctk.",
            (
                command("sudo nvidia-ctk runtime configure --runtime=containerd"),
                command("sudo systemctl restart containerd"),
            ),
        ),
        "daemon": Fix(
            "Start the daemon, or let this user use it (the group docker).",
            (command("systemctl status docker"), command("id")),
        ),
        "bind": "Make that folder on every node, or mount another one.",
    },
    confirm="The same container started by hand on that node fails alike.",
    source="docker; kubernetes pkg/kubelet/kuberuntime",
)
