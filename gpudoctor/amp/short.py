"""The short form that `gpudoctor check --deep` runs: is what fp16 and bf16 give right, on each device? No speed.

Devices side by side, as in the smoke test, and only those that passed it: what cannot multiply is found already.
"""

from collections.abc import Sequence

from gpudoctor.active import Waiting, gather
from gpudoctor.amp import assemble
from gpudoctor.amp.report import Precision
from gpudoctor.amp.run import child, heard
from gpudoctor.knowledge.precision.support import Dtype
from gpudoctor.read.children import ExamineWish
from gpudoctor.read.python import describe
from gpudoctor.read.smoke import AT_ONCE, SECONDS
from gpudoctor.snapshot import AmpResult, AmpTarget, MissingKind, Reading, Snapshot, missing, read

SOURCE = "mixed precision test"
KINDS: dict[str, MissingKind] = {"hung": "timeout", "unread": "absent"}
"""What a test that ended in this way leaves out; a release of torch that has no autocast has nothing to test."""
TESTED: tuple[Dtype, ...] = ("fp16", "bf16")


def run(wish: ExamineWish, snapshot: Snapshot, waiting: Waiting | None = None) -> Reading[tuple[AmpTarget, ...]]:
    """Every device of the snapshot's smoke test, each for max(--timeout, 30 s). Missing, with the reason, without."""
    smoke = snapshot.active.smoke
    if not smoke.is_read:
        return missing(SOURCE, f"needs the smoke test: {smoke.reason}", smoke.missing_kind or "failed")
    seconds = max(wish.timeout, SECONDS)
    able = [
        target.device for target in smoke.value if target.result.is_read and target.result.value.outcome == "passed"
    ]
    targets: dict[str, AmpTarget] = {}
    for first in range(0, len(able), AT_ONCE):
        batch = able[first : first + AT_ONCE]
        targets |= {target.device: target for target in test(wish.interpreter.path, batch, seconds, waiting)}
    for smoke_target in smoke.value:
        unable = missing(
            f"{SOURCE} {smoke_target.device}", "not tried: the device did not pass the smoke test", "not-asked"
        )
        targets.setdefault(smoke_target.device, AmpTarget(smoke_target.device, unable))
    return read(SOURCE, tuple(targets[target.device] for target in smoke.value))


def test(python: str, devices: Sequence[str], seconds: float, waiting: Waiting | None) -> list[AmpTarget]:
    """One batch, in its order."""
    wish = {"dtypes": list(TESTED), "seconds": 0, "speed": False}
    children = []
    try:
        for device in devices:
            children.append(child(named(device), python, device, wish, seconds, None))
    except OSError as error:
        for process in children:
            process.end()
        reason = missing(SOURCE, f"{python} cannot be run: {error.strerror or error}")
        return [AmpTarget(device, reason) for device in devices]
    replies = gather(children, waiting)
    targets = []
    for device in devices:
        reply = replies[named(device)]
        said, probe = heard(reply, seconds)
        whole = assemble.device(device, TESTED, said, probe, reply.seconds)
        source = f"{SOURCE} {device}"
        if whole.error:
            reason = missing(source, describe(probe), KINDS.get(probe.outcome, "failed"))
            targets.append(AmpTarget(device, reason))
        else:
            targets.append(AmpTarget(device, read(source, tuple(map(shortened, whole.precisions)))))
    return targets


def named(device: str) -> str:
    return f"{SOURCE} {device}"


def shortened(precision: Precision) -> AmpResult:
    """What the checks need of it."""
    worst = next((net for net in precision.compared if net.outcome == precision.outcome != "passed"), None)
    error = f"{worst.net}: {worst.error}" if worst is not None else precision.error
    if not error and precision.scaler is not None and precision.scaler.outcome == "failed":
        error = f"GradScaler: {precision.scaler.error}"
    outputs = [net.output_error for net in precision.compared if net.output_error is not None]
    gradients = [net.gradient_error for net in precision.compared if net.gradient_error is not None]
    return AmpResult(
        dtype=precision.dtype,
        support=precision.support,
        outcome=precision.outcome,
        error=error,
        output_error=max(outputs, default=None),
        gradient_error=max(gradients, default=None),
    )
