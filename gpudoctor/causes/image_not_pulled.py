from gpudoctor.cause import Cause, Fix, Judged, command

CAUSE = Cause(
    id="image-not-pulled",
    title="the container's image is not there",
    stages=("rendezvous",),
    kind="image",
    blame="environment",
    restart="after a fix",
    judged={"architecture": Judged("image", "environment", "after a fix")},
    hangs_by="start",
    meaning=(
        "A node could not get the image, or it is of another kind than the node. The ranks of that node never start."
    ),
    like=("scheduler-refused",),
    fix=Fix(
        "Compare name and tag with those in the registry; see that the node reaches it, and that its secret is valid "
        "(imagePullSecrets, docker login).",
        (command("kubectl get events --sort-by .lastTimestamp | grep -iE 'pull|image'"),),
    ),
    variants={
        "architecture": Fix(
            "Build for the node's processor, or take an image that has it (docker build --platform).",
            (command("uname -m"),),
        ),
    },
    confirm="Pulled by hand on that node, it fails alike.",
    source="kubernetes pkg/kubelet/images; docker",
)
