"""What `--deep` runs after the smoke test: mixed precision on each device, and a training with two processes."""

import msgspec

from gpudoctor.active import Waiting
from gpudoctor.read.children import ExamineWish
from gpudoctor.snapshot import Snapshot


def deepened(wish: ExamineWish, snapshot: Snapshot, waiting: Waiting) -> Snapshot:
    """The snapshot with their results. Never raises for what a test does."""
    from gpudoctor.amp import short as amp
    from gpudoctor.train import short as train

    replace = msgspec.structs.replace
    active = replace(snapshot.active, amp=amp.run(wish, snapshot, waiting))
    active = replace(active, train=train.run(wish, snapshot, waiting))
    return replace(snapshot, active=active)
