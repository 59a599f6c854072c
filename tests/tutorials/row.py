"""A row of the table of tutorials' lines."""

from collections.abc import Mapping
from typing import Literal, get_args

from msgspec import Struct

Title = Literal[
    "DataParallel, a model split by hand, and Apex",
    "DistributedDataParallel, mp.spawn and samplers",
    "CUDA_VISIBLE_DEVICES, numbers of GPUs, and TPUs",
    "Lightning over several GPUs and machines",
    "A saved state_dict, and the table of nvidia-smi",
]
"""The tutorials by what they are about: the sections of docs/tutorials.md."""
TITLES: tuple[Title, ...] = get_args(Title)
LINE = "LINE"
"""In a command: the row's own line as one argument."""


class Row(Struct, frozen=True, kw_only=True):
    """One thing that a tutorial teaches or shows."""

    id: str
    title: Title
    about: str
    """What it is, as a short heading: "gpus= of Trainer"."""
    line: str
    """As people paste it, in our own words and numbers. It is the content of `name`, or standard input where the
    command reads "-", or the argument `LINE`."""
    name: str = ""
    """The file that the line stands in."""
    command: str
    """What is run on it, as in a shell: "gpudoctor explain run.log"."""
    files: Mapping[str, str] = {}
    """Other files that must be there: name -> text."""
    saved: Mapping[str, tuple[str, ...]] = {}
    """Checkpoints that must be there: file -> names of its tensors."""
    machine: str = ""
    """A machine of gpudoctor.testing.machines whose snapshot lies in machine.json: "h100_node"."""
    environment: Mapping[str, str] = {}
    status: int = 1
    """The exit status: 0, 1 for a fault that is told, 2 for what cannot be read, 3 for what nobody can tell."""
    told: tuple[str, ...]
    """What must be said: texts of the output, whose line breaks count as spaces."""
    untold: tuple[str, ...] = ()
    """What must not be said: what was answered wrongly once, or would be."""
    today: str
    """What the line does today, as sentences: for the page."""
    write: str = ""
    """What to write instead, as code: for the page; empty where the line is right as it is."""
