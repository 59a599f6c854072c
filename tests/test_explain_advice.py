"""What an exception's own message says is to be done, where nothing better is known."""

import io

import pytest

from gpudoctor.explain.advised import advice
from gpudoctor.explain.explain import explain


@pytest.mark.parametrize(
    ("message", "says"),
    [
        (
            "ModelCheckpoint(monitor='val_acc') not found in the returned metrics: ['loss']. HINT: Did you call "
            "self.log('val_acc', tensor) in the LightningModule?",
            "HINT: Did you call self.log('val_acc', tensor) in the LightningModule",
        ),
        (
            "'Accelerator' object has no attribute 'deepspeed_config'. Did you mean: 'deepspeed_plugin'?",
            "deepspeed_plugin",
        ),
        ("`a` goes only with `b`.\nPlease set `b` to a positive number.", "Please set `b` to a positive number"),
        ("CUDA error: invalid argument\nFor debugging consider passing CUDA_LAUNCH_BLOCKING=1", ""),
        ("internal error. Please report a bug to the authors.", ""),
        ("You can't use `fsdp` and `deepspeed` at the same time", ""),
        ("shapes do not fit", ""),
    ],
)
def test_advice(message: str, says: str) -> None:
    assert (says in advice(message)) if says else not advice(message)


def test_the_fix_quotes_it() -> None:
    log = """Traceback (most recent call last):
  File "/w/t.py", line 9, in <module>
    run()
RuntimeError: the scheduler was not stepped. Call scheduler.step() once before the first epoch.
"""
    fix = explain(["-"], stdin=io.BytesIO(log.encode())).causes[0].fix
    assert "Call scheduler.step() once before the first epoch" in fix.text
