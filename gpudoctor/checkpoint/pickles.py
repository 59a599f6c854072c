"""Follows a pickle of torch.save without running anything: names are kept as names, calls as descriptions of calls.

The pickle's instructions (pickletools has their list) are taken one by one; the known functions that rebuild tensors
make a `Tensor` here, everything else becomes an `Object` with what was to be done to it. Numbers are not in a pickle:
they lie in storages, which a persistent id names.
"""

import struct
from collections.abc import Callable
from typing import Any

from gpudoctor.checkpoint.imports import PYTHON_2, standing
from gpudoctor.checkpoint.rebuilt import rebuilt, storage_of
from gpudoctor.checkpoint.unreadable import DAMAGED, TOO_MUCH_MEMORY, BadFile, DamagedFile, printable
from gpudoctor.checkpoint.values import Name, Object, Storage, Tensor
from gpudoctor.read.pickled import Long, PickleMachine, handlers

LONGEST_IMPORT = 1000
"""Characters of a module's name and what is wanted of it."""
MOST_COPIES = 1_000_000
"""Entries that calls copy, beside one for each byte."""
MOST_PLAIN = 100_000
"""Numbers and texts kept of one list."""
PLAIN_TYPES = (str, int, float, bool, type(None), Long)
Beat = Callable[[], None]


class Machine(PickleMachine):
    """Reads pickles that follow one another in `raw`, from `at` on. Raises `BadFile`, nothing else."""

    Broken = BadFile
    what = DAMAGED
    most_instructions = 40_000_000
    """Followed at a million a second or so; a tensor takes 40, so that a million tensors fit."""

    def __init__(self, raw: bytes | bytearray | memoryview, at: int = 0, *, beat: Beat = lambda: None) -> None:
        super().__init__(bytes(raw), at)
        self.names: dict[Name, int] = {}
        """What the pickle wants to import, and how often."""
        self.called: set[Name] = set()
        self.beat = beat  # type: ignore[method-assign]
        self._copies = MOST_COPIES + len(self.raw)

    def next_value(self) -> Any:
        """The value of the next pickle."""
        self.clear()
        self.storages: dict[str, Storage] = {}
        try:
            return self.run()
        except BadFile:
            raise
        except (IndexError, EOFError):
            if self.is_cut:
                self.at = len(self.raw)
                raise DamagedFile("it is cut off in the middle of its list of tensors") from None
            raise self.broken("an instruction lacks its value") from None
        except MemoryError:
            raise BadFile(TOO_MUCH_MEMORY) from None
        except (struct.error, ValueError, TypeError, KeyError, OverflowError, AttributeError, RecursionError) as error:
            raise DamagedFile(f"{DAMAGED} ({type(error).__name__})") from None

    @property
    def is_cut(self) -> bool:
        """It ran into the end of what was given."""
        return self.at >= len(self.raw)

    # ------------------------------------------------------------ objects of other code as containers

    def values_of(self, target: Any, kind: type) -> Any:
        if isinstance(target, Object):
            return target.values if kind is list else target.items
        return super().values_of(target, kind)

    def extend(self, items: list[Any]) -> None:
        if len(self.values_of(self.top(), list)) + len(items) > MOST_PLAIN:
            items = [item for item in items if type(item) not in PLAIN_TYPES]
        super().extend(items)

    def key(self, key: Any) -> Any:
        return key.full if isinstance(key, Name) else super().key(key)

    # ------------------------------------------------------------ what a pickle wants done

    def name(self, module: str, name: str) -> None:
        if not module or not name or len(module) + len(name) > LONGEST_IMPORT:
            raise self.broken("it names nothing to import")
        full_name = Name(PYTHON_2.get(module, module), name)
        if standing(full_name) == "dangerous":
            raise BadFile(
                f"it wants to import {printable(full_name.full)}, by which loading it can run any program: do not "
                "load it, and ask where it comes from; nothing of it was run here"
            )
        self.names[full_name] = self.names.get(full_name, 0) + 1
        self.made(full_name)

    def reduce(self) -> None:
        args, function = self.pop(), self.pop()
        if type(args) is not tuple:
            raise self.broken("a call without arguments")
        self.made(self.call(function, args))

    def call(self, function: Any, args: tuple[Any, ...]) -> Any:
        if not isinstance(function, Name):
            raise BadFile(
                "its list of tensors is damaged, or made to attack: it calls what is no function; do not load it"
            )
        if function.full in ("copyreg._reconstructor", "copyreg.__newobj__") and args and isinstance(args[0], Name):
            return Object(args[0], args[1:])
        self.copied(args)
        known = rebuilt(function, args)
        if known is not None:
            return known
        self.called.add(function)
        return Object(function, args, called=True)

    def copied(self, args: tuple[Any, ...]) -> None:
        """A call may copy what it is given: that counts as if the pickle had said it again."""
        self._copies -= sum(len(arg) for arg in args if isinstance(arg, (list, tuple, dict)))
        if self._copies < 0:
            raise BadFile(
                "it makes its values of copies of one another, more than its own size: made to use a reader up"
            )

    def new_object(self, keywords: bool = False) -> None:
        if keywords:
            self.pop()
        args, kind = self.pop(), self.pop()
        if not isinstance(kind, Name) or type(args) is not tuple:
            raise self.broken("an object without its class")
        self.copied(args)
        known = rebuilt(kind, args)
        self.made(known if known is not None else Object(kind, args))

    def build(self) -> None:
        state = self.pop()
        target = self.top()
        if isinstance(target, Object):
            target.state = state
        elif not isinstance(target, (dict, Tensor, list)):  # of those: the _metadata of a state dict, and attributes
            raise self.broken("a state without its object")

    def persistent(self) -> None:
        reference = self.pop()
        if type(reference) is not tuple or not reference:
            raise BadFile("it refers to something outside of it, as no checkpoint of torch.save does")
        what = reference[0]
        if what == "module" and len(reference) > 1:  # legacy: a class with its source text
            self.push(reference[1])
            return
        if what != "storage":
            raise BadFile("it refers to something outside of it, as no checkpoint of torch.save does")
        storage = storage_of(reference)
        if (
            storage.elements and len(reference) == 5
        ):  # torch keeps the first that it meets of a key, whatever the next one says
            storage = self.storages.setdefault(storage.key, storage)
        self.made(storage)


def _global(machine: Machine) -> None:
    module = machine.line().decode("utf-8")
    machine.name(module, machine.line().decode("utf-8"))


def _stack_global(machine: Machine) -> None:
    name, module = machine.pop(), machine.pop()
    if type(name) is not str or type(module) is not str:
        raise machine.broken("it names nothing to import")
    machine.name(module, name)


def _instance(machine: Machine) -> None:
    module = machine.line().decode("utf-8")
    name = machine.line().decode("utf-8")
    args = tuple(machine.items())
    machine.name(module, name)
    machine.made(machine.call(machine.pop(), args))


def _object(machine: Machine) -> None:
    kind, *args = machine.items()
    machine.made(machine.call(kind, tuple(args)))


def _extension(machine: Machine) -> None:
    raise BadFile("it wants an object of a registered extension, as no checkpoint of torch.save does")


Machine.handlers = handlers(
    {
        0x63: _global,
        0x93: _stack_global,
        0x69: _instance,
        0x6F: _object,
        0x52: Machine.reduce,
        0x81: Machine.new_object,
        0x92: lambda machine: machine.new_object(keywords=True),
        0x62: Machine.build,
        0x51: Machine.persistent,
        **dict.fromkeys((0x82, 0x83, 0x84), _extension),
    }
)
