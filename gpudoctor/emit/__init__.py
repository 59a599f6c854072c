"""Writes the advice of `gpudoctor env` in the form that a shell or tool reads: one emitter a format, advice -> text.

Every emitter keeps one promise: whoever reads the text gets exactly the suggested names and values. A value that a
format cannot hold raises `CannotExpress`.
"""

from collections.abc import Callable, Mapping

from gpudoctor.emit.docker import docker
from gpudoctor.emit.dotenv import dotenv
from gpudoctor.emit.fish import fish
from gpudoctor.emit.kubernetes import kubernetes
from gpudoctor.emit.shell import shell
from gpudoctor.emit.slurm import slurm
from gpudoctor.envelope import encode
from gpudoctor.knowledge.suggest.advice import Advice

EMITTERS: Mapping[str, Callable[[Advice], str]] = {
    "shell": shell,
    "fish": fish,
    "dotenv": dotenv,
    "slurm": slurm,
    "docker": docker,
    "kubernetes": kubernetes,
    "json": lambda advice: encode(advice).decode() + "\n",
}
