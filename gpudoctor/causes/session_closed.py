from gpudoctor.cause import Cause, Fix, Symptom

CAUSE = Cause(
    id="session-closed",
    title="the session that the job was started from was closed",
    stages=("training",),
    kind="user-interrupt",
    blame="user",
    restart="as it is",
    hangs_by="gone",
    meaning="The terminal or the ssh connection ended, and everything that was started in it got SIGHUP.",
    like=("preempted",),
    fix=Fix("Start it in tmux or screen, by setsid, or as a batch job, so that it outlives the session."),
    confirm="The end of the job and that of the session are of the same second.",
    symptoms=(
        Symptom(
            "elastic-hangup",
            pattern=(
                r"SignalException: Process (?P<pid>\d+) got signal: (?:1|SIGHUP)\b",
                r"Received (?:1|Signals\.SIGHUP|SIGHUP) death signal, shutting down workers",
            ),
            seen="the terminal or ssh session that torchrun was started from has closed (SIGHUP)",
            source="torch elastic/multiprocessing, elastic/agent",
            sample=(
                "torch.distributed.elastic.multiprocessing.api.SignalException: Process 6123 got signal: 1",
                "Received 1 death signal, shutting down workers",
            ),
            counter="torch.distributed.elastic.multiprocessing.api.SignalException: Process 6123 got signal: 15",
        ),
    ),
    source="signal(7); torch elastic/multiprocessing (SignalException)",
)
