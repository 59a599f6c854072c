"""gpudoctor: is this machine ready to train?"""

TYPE_CHECKING = False  # that of typing, which would be imported
if TYPE_CHECKING:
    from gpudoctor.armed import Armed

__version__ = "0.1.0"


def arm() -> "Armed":
    """Make a later hang of this process readable: see `gpudoctor.armed.arm`."""
    # Imported here: `python -m gpudoctor` runs this file before it has taken the working directory off the module path.
    from gpudoctor.armed import arm as prepare

    return prepare()
