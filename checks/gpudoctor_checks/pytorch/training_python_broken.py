"""The training interpreter does not answer, or is too old to be examined.

Why it matters: gpudoctor examines the Python that will run the training. One that hangs at its start (a dead network
file system on sys.path), crashes, or is no Python at all cannot train either; and nothing about torch can be told.
"""

from gpudoctor.check import Command, Fix, Problem, Problems, Snapshot, check, command
from gpudoctor.knowledge.pytorch.cuda_versions import parsed
from gpudoctor.knowledge.pytorch.torch_wheels import interpreter

OLDEST = (3, 8)  # what gpudoctor's workers are written for; torch asks for 3.8 since 2.0 and for 3.10 since 2.9


@check("training-python-broken", title="The training interpreter answers")
def training_python_broken(machine: Snapshot) -> Problems:
    training = machine.training
    probe = training.python_probe.value
    if probe.outcome == "answered":
        return
    path, version = training.python.value_or("the training interpreter"), training.python_version.value_or("")
    python = interpreter(machine)
    text = f"Look at what it does when it starts; it was chosen by {training.chosen_by.value_or('gpudoctor')}."
    commands: tuple[Command, ...] = (command("{:python} -X faulthandler -c 'import sys; print(sys.version)'", python),)
    if version and parsed(version)[:2] < OLDEST:
        summary = f"{path} is Python {version}; 3.8 or newer is wanted"
        text = "Make a training environment with a newer Python, and name its interpreter with --python."
        commands = (command("{:python} --version", python),)
    elif probe.outcome == "hung":
        summary = f"{path}: {probe.step} did not end within {probe.timeout_seconds:g} s"
        commands = (
            command("gpudoctor check --python {:path} --timeout {:number}", python, f"{probe.timeout_seconds * 6:g}"),
            command("{:python} -v -c pass 2>&1 | tail -n 3", python),
        )
    elif probe.outcome == "garbled":
        summary = f"{path} does not answer like a Python interpreter: it said {probe.detail}"
    else:
        summary = f"{path}: {probe.step} failed: {probe.detail}"
    yield Problem(
        severity="error",
        summary=summary,
        meaning="A training started with this interpreter meets the same, and its torch could not be examined.",
        evidence=(training.python_probe, training.python, training.python_version),
        fix=Fix(text, commands=commands),
    )
