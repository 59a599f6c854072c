"""gpudoctor: is this machine ready to train?"""

__version__ = "0.1.0"
