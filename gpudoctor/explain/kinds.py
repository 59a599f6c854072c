"""What a program is told of the faults that an exception or an error's text may mean, by name."""

from gpudoctor.cause import Blame, Judged, Restart
from gpudoctor.fault_classes import Class

AFTER: Restart = "after a fix"


def own(kind: Class, blame: Blame = "program", restart: Restart = AFTER) -> Judged:
    return Judged(kind, blame, restart)


OTHER = own("exception")
FILE, PERMISSION, IMPORT = (
    own("file-missing", "environment"),
    own("permission", "environment"),
    own("import", "environment"),
)
CONFIG, DATA, ARGUMENT = own("config", "user"), own("data"), own("argument")
CHECKPOINT, MISMATCH = own("checkpoint"), own("dependency-mismatch", "environment")
DOWNLOAD, STORAGE = own("download", "environment", "not decided"), own("storage", "node", "not decided")
MEMORY, GPU_MEMORY = own("host-memory"), own("gpu-memory")
ROUTE, LIMITS, NAN = own("route", "fabric", "not decided"), own("limits", "environment"), own("nan")
SHARED_MEMORY = own("shared-memory", "environment")
TIMED_OUT, DIED = own("nccl-timeout", restart="not decided"), own("dead-rank", restart="not decided")
NAME, SHAPE = own("name-resolution", "environment"), own("shape")
RENDEZVOUS, NO_DEVICE = own("rendezvous", "environment", "not decided"), own("no-device", "environment")
IMAGE, VOLUME = own("image", "environment", "not decided"), own("storage", "environment", "not decided")
SCHEDULER, ON_NODE = own("scheduler", "scheduler", "not decided"), own("scheduler", "node", "elsewhere")
NODE_LOST = own("node-lost", "node", "elsewhere")
NOBODY = own("route", "environment", "not decided")
"""Where nobody listens: the other end has died, or is another one."""
