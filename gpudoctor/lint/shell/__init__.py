"""Shell texts, parsed by tree-sitter-bash and followed as far as they are static: text -> invocations."""

from msgspec import Struct

from gpudoctor.lint.model import Facts, Invocation, SbatchOption, Section


class Shell(Struct, frozen=True, kw_only=True):
    """What the shell parts of a text do."""

    invocations: tuple[Invocation, ...] = ()
    """In the order in which they would run; wrappers (srun, env, bash -c) before what they start, which has them in
    `within`."""
    every_sbatch: tuple[SbatchOption, ...] = ()
    files: tuple[Section, ...] = ()
    """Files that the text writes itself: `cat > hostfile <<EOF`."""
    notes: tuple[str, ...] = ()


def invocations(text: str, sections: tuple[Section, ...], facts: Facts, batch: bool) -> Shell:
    """Every command of the sections that are not files. `batch`: the text is what sbatch runs, on the first node only."""
    return Shell()
