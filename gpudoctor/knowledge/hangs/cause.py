"""What is known of a kind of cause."""

from typing import Literal

from msgspec import Struct

from gpudoctor.command import Command

Stage = Literal["rendezvous", "communicator", "first collective", "training", "end"]


class HangCause(Struct, frozen=True, kw_only=True):
    """A kind of cause. Texts hold for every job; what is special to one is said where the cause is found."""

    name: str
    title: str
    """What is wrong, as a short phrase: "a rank has died", "/dev/shm is too small"."""
    stages: tuple[Stage, ...]
    meaning: str
    """Why the job stands still because of it, as sentences."""
    fix: str
    """What to do, as sentences."""
    commands: tuple[Command, ...] = ()
    """Lines to paste that need no value of the job."""
    confirm: str
    """The test that decides, as sentences."""
    source: str
