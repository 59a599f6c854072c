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


@pytest.mark.parametrize("folder", ["/root/.cache/uv/builds-v0/.tmpQ4", "/tmp/pip-build-env-4k1/overlay"])
def test_nobody_is_told_to_install_into_an_environment_that_a_build_has_removed(folder: str) -> None:
    log = f"""  Call to `setuptools.build_meta:__legacy__.build_wheel` failed (exit status: 1)
      Traceback (most recent call last):
        File "<string>", line 12, in <module>
        File "{folder}/lib/python3.12/site-packages/setuptools/build_meta.py", line 331, in get_requires_for_build_wheel
          return self._get_build_requires(config_settings, requirements=[])
        File "<string>", line 19, in <module>
      ModuleNotFoundError: No module named 'torch'
"""
    fix = explain(["-"], stdin=io.BytesIO(log.encode())).causes[0].fix
    assert "--no-build-isolation" in fix.text and not any(folder in line for line in fix.commands)
