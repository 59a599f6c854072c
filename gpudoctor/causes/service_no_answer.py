from gpudoctor.cause import Cause, Fix

CAUSE = Cause(
    id="service-no-answer",
    title="a service does not answer",
    stages=("rendezvous", "communicator", "first collective", "training", "end"),
    kind="slow-rank",
    blame="environment",
    restart="not decided",
    hangs_by="elsewhere",
    may_pass=True,
    meaning=(
        "A rank waits for an answer of a server (a tracking service, object storage, a log collector, a "
        "database), without a time limit. The others wait for this rank."
    ),
    like=(
        "slow-rank-timeout",
        "storage-stall",
    ),
    fix=Fix(
        "Give every request a timeout, and report metrics and logs from a thread of their own, so that "
        "training does not wait for them."
    ),
    variants={
        "sending": (
            "The other side does not read what is sent: its buffers are full. Look at the collector, or log to a file."
        ),
    },
    confirm="The connection is established, and neither side has sent anything between looks.",
    source=("Python documentation of socket.setdefaulttimeout and urllib.request; requests documentation, Timeouts"),
)
