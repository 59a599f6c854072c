from gpudoctor.cause import Cause, Fix, Judged, command

CAUSE = Cause(
    id="image-not-pulled",
    title="the container's image is not there",
    stages=("rendezvous",),
    kind="image",
    blame="environment",
    restart="after a fix",
    judged={
        **dict.fromkeys(("architecture", "platform"), Judged("image", "environment", "after a fix")),
        **dict.fromkeys(("rate", "damaged"), Judged("image", "environment", "as it is")),
        "room": Judged("disk-full", "node", "elsewhere"),
        "unreached": Judged("image", "environment", "not decided"),
    },
    hangs_by="start",
    meaning=("A node could not get the image. The ranks of that node never start."),
    like=("scheduler-refused",),
    fix=Fix(
        "Compare name and tag with those in the registry; see that the node reaches it, and that its secret is valid "
        "(Kubernetes: imagePullSecrets; docker: docker login).",
        (command("kubectl get events --sort-by .lastTimestamp | grep -iE 'pull|image'"),),
    ),
    variants={
        "rate": Fix(
            "The registry lets no more be pulled for now: wait, log in (Kubernetes: imagePullSecrets; docker: docker "
            "login), or pull from "
            "a mirror or a registry of your own.",
        ),
        "room": Fix(
            "The node's disk has no room for the image: remove images there (Kubernetes: crictl rmi --prune; docker: "
            "docker system prune), "
            "give it a larger disk, or take a smaller image.",
            (command("df -h"),),
        ),
        "certificate": Fix(
            "The node does not trust the registry's certificate: put its CA into the node's and the runtime's store "
            "(containerd: certs.d, docker: /etc/docker/certs.d), and look at its clock.",
        ),
        "plain": Fix(
            "The registry speaks HTTP, and the runtime asks it by HTTPS: name it as one without TLS (docker: "
            "insecure-registries; containerd: hosts.toml with http://), or give it a certificate.",
        ),
        "damaged": Fix(
            "A layer came in another size or with another digest than the manifest says: pull again; where it stays "
            "so, a proxy or cache between hands out a broken copy (go past it), or the image is to be pushed again.",
        ),
        "platform": Fix(
            "The image is there, and not for the node's processor: build it for that platform (docker buildx build "
            "--platform), or take a tag that has it.",
            (command("uname -m"),),
        ),
        "unreached": Fix(
            "The node does not reach the registry: look at its network, name resolution and proxy (the daemon reads "
            "its own HTTPS_PROXY and NO_PROXY), or take a mirror that it reaches.",
        ),
        "login": Fix(
            "The registry shows that image to nobody without a (better) login: compare its name, and give the pod a "
            "secret that may pull it, in its own namespace (imagePullSecrets), or docker login.",
        ),
        "name": Fix(
            "The registry has no image of that name and tag: compare both with what is there (case and the registry's "
            "name count).",
        ),
        "architecture": Fix(
            "Build for the node's processor, or take an image that has it (docker build --platform).",
            (command("uname -m"),),
        ),
    },
    confirm="Pulled by hand on that node, it fails alike.",
    source="kubernetes pkg/kubelet/images; docker",
)
