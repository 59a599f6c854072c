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
        **dict.fromkeys(("sandbox", "sandbox-network"), Judged("config", "node", "elsewhere")),
        "sandbox-runtime": Judged("driver", "node", "elsewhere"),
        "sandbox-address": Judged("scheduler", "environment", "elsewhere"),
        "sandbox-room": Judged("disk-full", "node", "elsewhere"),
        "sandbox-image": Judged("image", "node", "elsewhere"),
        "refused": Judged("image", "environment", "not decided"),
        "enroot-cli": Judged("driver", "node", "after a fix"),
        "runtime-program": Judged("permission", "node", "after a fix"),
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
            "Make the {kind} {name}, or that key of one, in the pod's namespace (they are no other namespace's), or "
            "write its right name into the pod's env, envFrom or volumes; optional: true lets it be missing.",
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
            "The node's container runtime could not make the pod's sandbox: have what its message names repaired "
            "there; other nodes may be well.",
            (command("kubectl describe pod"),),
        ),
        "sandbox-runtime": Fix(
            "Make that runtime known to the node's containerd or CRI-O (NVIDIA's by nvidia-ctk), or take "
            "runtimeClassName out of the pod.",
            (
                command("sudo nvidia-ctk runtime configure --runtime=containerd"),
                command("sudo systemctl restart containerd"),
            ),
        ),
        "sandbox-network": Fix(
            "The network plugin (CNI) of that node failed, as its message says: look at its own pod there (calico, "
            "flannel, cilium, aws-node), and start it again; other nodes may be well.",
            (command("kubectl get pods --all-namespaces -o wide"),),
        ),
        "sandbox-address": Fix(
            "The network plugin has no address left for another pod on that node: fewer pods there, a larger subnet or "
            "range of addresses, or a kind of machine with more interfaces; end pods that are done.",
            (command("kubectl get pods --all-namespaces -o wide --sort-by .spec.nodeName"),),
        ),
        "sandbox-room": Fix("The disk of the node's container runtime is full: make room there.", (command("df -h"),)),
        "sandbox-image": Fix(
            "The node cannot get the sandbox's own image (pause): look at its way to that registry, or name a mirror "
            "in the runtime's configuration (sandbox_image, of containerd 2 sandbox).",
            (command("grep -n sandbox /etc/containerd/config.toml"),),
        ),
        "sandbox-cgroup": Fix(
            "Kubelet and container runtime use different drivers of cgroups there: make both systemd (kubelet: "
            "cgroupDriver; containerd: SystemdCgroup = true), and start them again.",
            (command("grep SystemdCgroup /etc/containerd/config.toml"),),
        ),
        "enroot-cli": Fix(
            "enroot's hook 98-nvidia.sh calls nvidia-container-cli, which that node does not have: install "
            "libnvidia-container-tools there; a container that needs no GPU starts with NVIDIA_VISIBLE_DEVICES=void.",
            (command("command -v nvidia-container-cli"),),
        ),
        "mounts-form": Fix("Write --container-mounts as SRC:DST, or SRC:DST:FLAGS, with commas between several."),
        "runtime-program": Fix(
            "The daemon's configuration names {file} as a runtime: let it be the program itself (no folder, no file of "
            "settings), executable by root (ls -l), and not on a file system that is mounted noexec; SELinux and "
            "AppArmor may refuse it too.",
            (command("cat /etc/docker/daemon.json"),),
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
