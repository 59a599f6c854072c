"""Step numbers: `gpudoctor.step` and callbacks of real Lightning and transformers, as `gpudoctor run` reads them."""

import importlib.util
import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import gpudoctor.callbacks as callbacks
from gpudoctor.read.job import announced
from gpudoctor.run.stall import in_steps
from tests.lab.sshd import user_environment

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="run attends commands on Linux")
PATIENCE = 200.0
LOOP = """
import sys, time
import gpudoctor
gpudoctor.step(7)
print("ready", flush=True)
sys.stdin.read()
"""
LIGHTNING = """
import logging, time, warnings
warnings.simplefilter("ignore")
import pickle, torch
from lightning.pytorch import Callback, LightningModule, Trainer
from gpudoctor.callbacks import LightningSteps

steps = pickle.loads(pickle.dumps(LightningSteps()))  # as a Trainer that spawns its ranks hands it over
assert type(steps) is LightningSteps and isinstance(steps, Callback)

class Model(LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)
    def training_step(self, batch, index):
        if self.global_step == 5:
            time.sleep(6)
            raise ValueError("in the sixth step")
        return self.layer(batch).sum()
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.01)

logging.getLogger("lightning").setLevel(logging.ERROR)
data = torch.utils.data.DataLoader(torch.ones(40, 4), batch_size=1)
Trainer(
    accelerator="cpu", devices=1, max_steps=20, callbacks=[steps], logger=False,
    enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
).fit(Model(), data)
"""
TRANSFORMERS = """
import time
import torch
from transformers import Trainer, TrainingArguments
from gpudoctor.callbacks import TransformersSteps

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)
        self.steps = 0
    def forward(self, x):
        self.steps += 1
        if self.steps == 6:
            time.sleep(6)
            raise ValueError("in the sixth step")
        return {"loss": self.layer(x).sum()}

class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 40
    def __getitem__(self, index):
        return {"x": torch.ones(4)}

arguments = TrainingArguments(
    output_dir="out", per_device_train_batch_size=1, max_steps=20, use_cpu=True, report_to=[], save_strategy="no",
    disable_tqdm=True, remove_unused_columns=False,
)
Trainer(model=Model(), args=arguments, train_dataset=Data(), callbacks=[TransformersSteps()]).train()
"""


def test_a_step_is_read_of_a_loop_that_tells_it() -> None:
    with subprocess.Popen([sys.executable, "-c", LOOP], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as program:
        try:
            assert program.stdout is not None and program.stdout.readline() == b"ready\n"
            descriptor = announced.announcement(program.pid)
            assert descriptor is not None
            assert announced.progress(program.pid, descriptor) == announced.RankProgress(begun=0, rank=None, step=7)
        finally:
            program.kill()


def test_steps_in_words() -> None:
    assert [in_steps(None), in_steps((4, 4)), in_steps((4, 6))] == ["", " in step 4", " in steps 4 to 6"]


def test_a_callback_of_a_framework_that_is_not_installed_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(callbacks, "LIGHTNING", ("not_installed_here.pytorch",))
    with pytest.raises(ImportError, match="needs lightning or pytorch_lightning"):
        callbacks.__getattr__("LightningSteps")
    with pytest.raises(AttributeError, match="no attribute 'Others'"):
        callbacks.__getattr__("Others")


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("framework", "script"), [("lightning", LIGHTNING), ("transformers", TRANSFORMERS)])
def test_the_step_is_told_at_the_end_of_a_run(tmp_path: Path, framework: str, script: str) -> None:
    if importlib.util.find_spec(framework) is None:
        pytest.skip(f"{framework} is not installed")
    (tmp_path / "train.py").write_text(textwrap.dedent(script))
    words = [sys.executable, "-m", "gpudoctor", "run", "--preflight", "none", "--report", str(tmp_path / "runs")]
    done = subprocess.run(
        [*words, "--", sys.executable, "train.py"],
        capture_output=True,
        text=True,
        env={**user_environment(), "PYTHONPATH": os.environ.get("PYTHONPATH", "")},
        cwd=tmp_path,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    assert "; it was last seen in step 5; its output is in" in done.stderr, done.stderr
    (record,) = (tmp_path / "runs").rglob("run.json")
    assert json.loads(record.read_text())["steps"] == [5, 5]
