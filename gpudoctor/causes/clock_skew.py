from gpudoctor.cause import POSSIBLE, Cause, Fix, Symptom, command

CAUSE = Cause(
    id="clock-skew",
    title="the clocks of the nodes differ by more than the rendezvous bears",
    stages=("rendezvous",),
    kind="config",
    blame="node",
    restart="after a fix",
    hangs_by="start",
    while_running="always",
    meaning=(
        "torchrun's c10d rendezvous compares the other nodes' heartbeats with its own clock: 3 of 5 s each. A "
        "node that is more than 15 s behind is taken for dead and left out. The others train with a smaller world "
        "without a word, and the node that was left out waits."
    ),
    like=("rdzv-host-mismatch",),
    fix=Fix(
        "Let all nodes keep their time by NTP (chrony, systemd-timesyncd), then start again.",
        (command("timedatectl"), command("chronyc tracking")),
    ),
    variants={
        "known": Fix(
            "Set the clock of {hosts} by NTP on every node, end all launchers and start again. These "
            "lines, on each node, set it at once and show what it is set by.",
            (
                command("sudo systemctl enable --now chronyd || sudo timedatectl set-ntp true"),
                command("sudo chronyc makestep || sudo systemctl restart systemd-timesyncd"),
                command("timedatectl"),
            ),
        ),
    },
    confirm=("Compare the clocks of all nodes: they lie more than 15 s apart."),
    foreseen_by=("clock-offset-large", "clock-unsynchronised"),
    symptoms=(
        Symptom(
            "clock-wrong",
            pattern=r"[Ss]ystem clock wrong by (?P<seconds>-?(?:\d{3,}|[2-9]\d|1[5-9])\.\d+) seconds",
            confidence=POSSIBLE,
            seen="the clock of this node was wrong by {seconds} s",
            source="chrony",
            sample="Aug 19 11:40:02 gpu-a03 chronyd[911]: System clock wrong by 41.220184 seconds",
            counter="Aug 19 11:40:02 gpu-a03 chronyd[911]: System clock wrong by 1.220184 seconds",
        ),
    ),
    source=(
        "torch elastic/rendezvous/dynamic_rendezvous.py (keep_alive_interval, keep_alive_max_attempt), measured "
        "with torch 2.13; awsome-distributed-ai#180, #202"
    ),
)
