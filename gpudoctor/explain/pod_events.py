"""Kubernetes' events that stop a pod, by their reasons: pkg/kubelet/events/event.go, pkg/controller (volumes, jobs,
nodes), pkg/kubelet/eviction; the class of each. Those that are told of a pod that gets on (Unhealthy, BackOff,
Killing) stand in none."""

from collections.abc import Mapping

from gpudoctor.cause import Judged
from gpudoctor.explain.kinds import CONFIG, IMAGE, LIMITS, MEMORY, NODE_LOST, PERMISSION, SCHEDULER, VOLUME, own
from gpudoctor.lazy import lazy_re

FULL = own("disk-full", "node")
EVENT = lazy_re(r"(?:^|\s)Warning\s{2,}(?P<reason>[A-Z]\w{2,50})\s")
REASONS: Mapping[str, Judged] = {
    **dict.fromkeys(("ErrImageNeverPull", "InspectFailed", "FailedPullImage", "ErrImagePull"), IMAGE),
    **dict.fromkeys(("FreeDiskSpaceFailed", "ImageGCFailed", "EvictionThresholdMet", "ContainerGCFailed"), FULL),
    "SystemOOM": MEMORY,
    **dict.fromkeys(("Rebooted", "NodeNotReady", "InvalidDiskCapacity", "KubeletSetupFailed"), NODE_LOST),
    **dict.fromkeys(
        (
            *("ProvisioningFailed", "FailedBinding", "FailedAttachVolume", "FailedMapVolume", "FailedUnMount"),
            *("VolumeResizeFailed", "FileSystemResizeFailed", "FailedMountOnFilesystemMismatch", "VolumeFailedDelete"),
            *("VolumeFailedRecycle", "FailedToUnmapDevice", "FailedUnmapDevice", "ClaimLost"),
        ),
        VOLUME,
    ),
    **dict.fromkeys(("FailedPostStartHook", "FailedPreStopHook"), own("exception")),
    **dict.fromkeys(("FailedKillPod", "FailedPodSandBoxStatus", "FailedSync"), own("scheduler", "node", "elsewhere")),
    **dict.fromkeys(("NodeSelectorMismatching", "InsufficientFreeCPU", "InsufficientFreeMemory"), SCHEDULER),
    "HostPortConflict": own("port", "user"),
    "SysctlForbidden": PERMISSION,
    **dict.fromkeys(("FailedValidation", "FailedToMakePodDataDirectories", "DNSConfigForming"), CONFIG),
}
OF_PIDS = lazy_re(r"\blow on resource: pids\b|\bPIDPressure\b")


def judged_event(text: str) -> Judged | None:
    """None: no such event."""
    match = EVENT.search(text)
    if match is None:
        return None
    return LIMITS if OF_PIDS.search(text) else REASONS.get(match["reason"])


__all__ = ["judged_event"]
