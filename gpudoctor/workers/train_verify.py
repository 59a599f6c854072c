"""`Verifier`: what users silently rely on, held against the single-process run step by step.

Every way calls the same steps in the same order, on all ranks: `model`, `wrapped`, then for each step `took`,
`gradients`, `stepped`, at the end `finish`. Each raises `FaultFound` on all ranks alike. None of them changes what is
trained, and all of them are outside the measured time.
"""

from typing import Any, Callable, Dict, List, NoReturn, Optional, Sequence

from train_blame import fault, number_text, odd_ones, one_rank, ranks_text
from train_digest import bits_of, digest, float_of, norm, ratio, relative
from train_precision import DTYPES, TOLERANCE
from train_reference import Reference
from train_samples import Partition
from train_verify_start import as_the_seed_gives, on_their_devices
from train_way import Context, FaultFound

FLOOR = 0.05
"""A parameter's gradient is held against at least this part of the whole gradient's size: one that is nearly nothing
has nothing but rounding in it."""
UNIFORM = 0.1
"""What may be left when all gradients are off by one factor, relative."""
MEETING_STEPS = 10
"""So often the reference goes on from the ranks' parameters, when these have been found right: rounding would add up to
a difference in a long run. Training is verified all the same, for each stretch begins where the one before ended."""
NEAR = 0.02
"""A factor is near another when it is off by less than this, relative."""


class Verifier:
    """`samples`: a train_net.Samples. `batch`: samples a rank and step. `order`: see `Partition`."""

    def __init__(
        self, context: Context, samples: Any, batch: int, order: Optional[Callable[[int], List[int]]] = None
    ) -> None:
        self.context = context
        self.torch = context.torch
        self.team = context.team
        self.tolerance = TOLERANCE[context.precision]
        self.reference = Reference(self.torch, int(context.plan["seed"]), samples, context.device)
        self.names = self.reference.names
        self.partition = Partition(self.team, len(samples), batch, order)
        self.own: List[int] = []
        self.every: List[int] = []
        self.step = 0
        self._met = 0
        """The step at which the reference last had the ranks' own parameters."""
        self._pending: Dict[str, Any] = {}

    # ---- before the first step

    def model(self, model: Any, device_of: Optional[Callable[[str], Any]] = None) -> None:
        """The plain model of this rank, before a wrapper touches it: its device, and its initial weights.

        `device_of`: where a parameter or buffer must be; the rank's device without it.
        """
        on_their_devices(self.context, model, device_of)
        as_the_seed_gives(self.context, self.reference, dict(model.named_parameters()), "before the wrapper")
        as_the_seed_gives(self.context, self.reference, dict(model.named_buffers()), "before the wrapper")

    def wrapped(self, parameters: Dict[str, Any]) -> None:
        """The parameters, whole and by their plain names, when the wrapper has been put around the model."""
        as_the_seed_gives(self.context, self.reference, parameters, "after the wrapper")

    # ---- in each step

    def took(self, step: int, epoch: int, numbers: Optional[List[int]]) -> None:
        """The samples that this rank's loader gave for the step; None when it gave no more."""
        self.step = step
        self.own, self.every = self.partition.took(step, epoch, numbers)

    def end_epoch(self) -> None:
        """When a whole epoch was taken."""
        self.partition.end_epoch(self.step)

    def wants_parameters(self) -> bool:
        """Whether `gradients` is to be given the parameters of this step, also where that takes an exchange."""
        return self.step - self._met >= MEETING_STEPS

    def gradients(
        self,
        gradients: Dict[str, Optional[Any]],
        loss: float,
        *,
        local: Optional[Dict[str, Any]] = None,
        parameters: Optional[Dict[str, Any]] = None,
        scale: float = 1.0,
        overflow: bool = False,
    ) -> None:
        """After backward and unscaling, before the optimizer's step.

        `gradients`: whole, by plain names. `loss`: of this rank's batch. `local`: this rank's gradients before they
        were reduced, still scaled by `scale`. `parameters`: those that the step used. `overflow`: this step was made
        to overflow; all ranks must see that.
        """
        names, torch = self.names, self.torch
        if parameters is not None and self.wants_parameters():
            self._meet(parameters)
        reference_loss, wanted = self.reference.gradients(self.every)
        floor = FLOOR * norm(torch, list(wanted.values()))
        held: Dict[str, Any] = parameters or {}
        numbers: List[int] = []
        for name in names:
            numbers.append(digest(torch, gradients.get(name)))
            numbers.append(bits_of(relative(torch, gradients.get(name), wanted[name], floor)))
            numbers.append(digest(torch, held.get(name)))
        rows = self.team.gather_integers([*numbers, bits_of(loss), bits_of(reference_loss), bits_of(scale)])
        self._pending = {"gradients": wanted, "overflow": overflow}
        for place, name in enumerate(names):
            if len({row[3 * place + 2] for row in rows}) > 1:
                self._parameter_differs(name, [row[3 * place + 2] for row in rows], held[name])
        self._same_scale([float_of(row[-1]) for row in rows])
        differences = [[float_of(row[3 * place + 1]) for row in rows] for place in range(len(names))]
        if overflow:
            self._overflow_seen(differences)
            return
        unequal = [place for place in range(len(names)) if len({row[3 * place] for row in rows}) > 1]
        if unequal:
            digests = [row[3 * unequal[0]] for row in rows]
            self._gradient_differs(names[unequal[0]], len(unequal), digests, differences[unequal[0]], gradients, local)
        worst = max(range(len(names)), key=lambda place: _size(max(differences[place])))
        if not max(differences[worst]) <= self.tolerance:
            self._gradient_wrong(names[worst], differences[worst], gradients, wanted, local, scale)
        mean = sum(float_of(row[-3]) for row in rows) / len(rows)
        self._loss(mean, [float_of(row[-3]) for row in rows], [float_of(row[-2]) for row in rows])
        self.context.measured.update(loss=_finite(mean), reference_loss=_finite(reference_loss))

    def stepped(self, parameters: Dict[str, Any], before: Dict[str, Any], scale: float, scale_before: float) -> None:
        """After the optimizer's step of a step that overflowed: all ranks must have skipped it, and halved the scale.

        `before`: copies of the parameters as they were. For any other step call `advance`.
        """
        changed = [name for name in self.names if not self.torch.equal(parameters[name].detach(), before[name])]
        rows = self.team.gather([float(len(changed)), scale / scale_before if scale_before else 0.0])
        took = [rank for rank, row in enumerate(rows) if row[0]]
        if took:
            named = self.team.exchange({"name": changed[0] if changed else ""})
            self._fail(
                "overflow not skipped",
                took,
                str(named[took[0]].get("name", "")),
                seen=f"{ranks_text(took)} changed parameters in a step whose gradients overflowed",
                wanted="the step is skipped on all ranks",
            )
        kept = [rank for rank, row in enumerate(rows) if abs(row[1] - 0.5) > NEAR]
        if kept:
            self._fail(
                "loss scale",
                kept,
                seen=f"an overflow left the scale at {rows[kept[0]][1]:g} times what it was, on {ranks_text(kept)}",
                wanted="half of it",
            )

    def advance(self) -> None:
        """The reference takes the step too, unless it overflowed."""
        if not self._pending.get("overflow"):
            self.reference.step(self._pending["gradients"])

    # ---- at the end

    def finish(self, parameters: Dict[str, Any]) -> None:
        """The parameters after the last step, whole and by plain names."""
        self._same_as_reference(parameters)

    def _meet(self, parameters: Dict[str, Any]) -> None:
        self._same_as_reference(parameters)
        with self.torch.no_grad():
            for name, own in self.reference.parameters().items():
                own.copy_(parameters[name].detach())
        self._met = self.step

    def _same_as_reference(self, parameters: Dict[str, Any]) -> None:
        wanted = self.reference.parameters()
        numbers = []
        for name in self.names:
            numbers.append(digest(self.torch, parameters[name]))
            numbers.append(bits_of(relative(self.torch, parameters[name], wanted[name], self._floor(wanted))))
        rows = self.team.gather_integers(numbers)
        for place, name in enumerate(self.names):
            digests = [row[2 * place] for row in rows]
            differences = [float_of(row[2 * place + 1]) for row in rows]
            alike = len(set(digests)) == 1
            if alike and max(differences) <= self.tolerance:
                continue
            wrong = odd_ones(digests, differences, self.tolerance)
            seen = "equal on all ranks, " if alike and self.team.ranks > 1 else ""
            seen += f"relative difference {number_text(max(differences))} to the single-process run"
            self._fail(
                "parameter", wrong, name, seen=seen, wanted=f"at most {self.tolerance:g}, and the same on all ranks"
            )

    def computed(self, dtypes: List[str]) -> None:
        """In which dtypes a layer of this rank's model computed, as the layer saw it."""
        wanted = DTYPES[self.context.precision]
        other = next((dtype for dtype in dtypes if dtype != wanted), "")
        every = [str(told.get("other", "")) for told in self.team.exchange({"other": other})]
        wrong = [rank for rank, one in enumerate(every) if one]
        if wrong:
            raise FaultFound(
                fault(
                    "precision",
                    one_rank(wrong, self.team.ranks),
                    seen=f"blocks.0 computed in {every[wrong[0]]} on {ranks_text(wrong)}",
                    wanted=wanted,
                )
            )

    # ---- what was wrong

    def _floor(self, tensors: Dict[str, Any]) -> float:
        return FLOOR * norm(self.torch, list(tensors.values()))

    def _parameter_differs(self, name: str, digests: List[int], held: Any) -> None:
        wanted = self.reference.parameters()
        own = relative(self.torch, held, wanted[name], self._floor(wanted))
        differences = [row[0] for row in self.team.gather([own])]
        wrong = odd_ones(digests, differences, self.tolerance)
        self._fail(
            "parameter",
            wrong,
            name,
            seen=f"the ranks begin the step with different values; relative difference to the single-process run "
            f"{number_text(max(differences, key=_size))}",
            wanted="the same on all ranks",
        )

    def _same_scale(self, scales: List[float]) -> None:
        if len(set(scales)) == 1:
            return
        wrong = odd_ones([bits_of(scale) for scale in scales], [float("inf")] * len(scales), 0.0)
        shown = ", ".join(f"{scale:g}" for scale in scales[:8])
        self._fail(
            "loss scale", wrong, seen=f"the ranks scale their loss by {shown}", wanted="the same scale on all ranks"
        )

    def _overflow_seen(self, differences: List[List[float]]) -> None:
        blind = [rank for rank in range(self.team.ranks) if all(every[rank] < float("inf") for every in differences)]
        if blind:
            self._fail(
                "overflow not skipped",
                blind,
                seen=f"{ranks_text(blind)} saw finite gradients though the gradients of rank "
                f"{self.team.ranks - 1} overflowed",
                wanted="an overflow on one rank reaches all by the reduction",
            )

    def _gradient_differs(
        self,
        name: str,
        count: int,
        digests: List[int],
        differences: List[float],
        gradients: Dict[str, Optional[Any]],
        local: Optional[Dict[str, Any]],
    ) -> None:
        """The ranks have different gradients of `count` parameters, and would train different models from here on."""
        own = gradients.get(name)
        unreduced = False
        if local is not None and name in local and own is not None:
            unreduced = relative(self.torch, own * self._scale(own, local[name]), local[name]) < 1e-6
        alone = [rank for rank, row in enumerate(self.team.gather([float(unreduced)])) if row[0]]
        wrong = odd_ones(digests, differences, self.tolerance)
        if len(alone) == self.team.ranks:
            wrong = []
            seen = "each rank has the gradient of its own batch alone: it was not synchronised"
        else:
            seen = "the ranks have different gradients"
        seen += f" ({count} of {len(self.names)} parameters)"
        most = max((differences[rank] for rank in wrong or range(self.team.ranks)), key=_size)
        self._fail(
            "gradient",
            wrong,
            name,
            seen=f"{seen}; relative difference {number_text(most)} to the single-process run",
            wanted="the mean over all ranks, the same on each",
        )

    def _scale(self, own: Any, local: Any) -> float:
        """Local gradients are still multiplied by the loss scale."""
        factor, _ = ratio(self.torch, [local], [own])
        return factor

    def _gradient_wrong(
        self,
        name: str,
        differences: List[float],
        gradients: Dict[str, Optional[Any]],
        wanted: Dict[str, Any],
        local: Optional[Dict[str, Any]],
        scale: float,
    ) -> None:
        """All ranks have the same gradient, and it is not that of the single-process run."""
        off = [rank for rank, difference in enumerate(differences) if not difference <= self.tolerance]
        worst = max(differences, key=_size)
        if len(off) < self.team.ranks:
            self._fail_gradient(
                "gradient",
                one_rank(off, self.team.ranks),
                name,
                f"the same gradient on all ranks, but the single-process run of {ranks_text(off)} gives another "
                f"(relative difference {number_text(worst)}): its device computes differently",
            )
        if any(gradient is None for gradient in gradients.values()):
            missing = next(name for name in self.names if gradients.get(name) is None)
            self._fail_gradient("gradient", None, missing, "no gradient on any rank")
        rank, parameter, text = self._local_culprit(local, scale)
        if not worst < float("inf"):
            self._fail_gradient("not finite", rank, parameter or name, text or "infinite or not a number")
        if text:
            self._fail_gradient("gradient", rank, parameter or name, text)
        whole = [gradients[one] for one in self.names]
        factor, rest = ratio(self.torch, whole, [wanted[one] for one in self.names])
        ranks = self.team.ranks
        own_are_right = ranks > 1 and local is not None and not self._own_is_off(local, scale)
        if rest <= UNIFORM and abs(factor - 1) > 3 * rest:
            said = f"{factor:.4g} times the gradient of the single-process run, for all parameters"
            if scale != 1.0 and abs(factor / scale - 1) < NEAR:
                said += f": still multiplied by the loss scale of {scale:g}"
                self._fail_gradient("loss scale", None, self.names[0], said)
            if ranks > 1 and abs(factor / ranks - 1) < NEAR and (own_are_right or local is None):
                said += (
                    ": the ranks' gradients were summed, not averaged"
                    if own_are_right
                    else f", with {ranks} ranks: they were summed, not averaged, or the loss was scaled"
                )
                self._fail_gradient("gradient", None, self.names[0], said)
            self._fail_gradient("loss scale", None, self.names[0], said)
        said = f"relative difference {number_text(worst)} to the single-process run"
        if own_are_right:
            said += "; each rank's own gradient is right, and the reduction did not give their mean"
        self._fail_gradient("gradient", None, name, said)

    def _fail_gradient(self, kind: str, rank: Optional[int], name: str, seen: str) -> NoReturn:
        wanted = f"the single-process gradient within {self.tolerance:g}"
        raise FaultFound(fault(kind, rank, name, self.step, seen=seen, wanted=wanted))

    def _fail(self, kind: str, wrong: Sequence[int], name: str = "", *, seen: str, wanted: str) -> NoReturn:
        """`wrong`: the ranks of which it is known; one of them alone is named, and never all."""
        rank = one_rank(wrong, self.team.ranks)
        raise FaultFound(fault(kind, rank, name, self.step, seen=seen, wanted=wanted))

    def _local_differences(self, local: Optional[Dict[str, Any]], scale: float) -> Dict[str, float]:
        """This rank's gradients before the reduction, against those of its batch."""
        if not local:
            return {}
        _, wanted = self.reference.gradients(self.own)
        floor = FLOOR * norm(self.torch, list(wanted.values()))
        return {
            name: relative(self.torch, local[name] / scale, wanted[name], floor) for name in self.names if name in local
        }

    def _local_culprit(self, local: Optional[Dict[str, Any]], scale: float) -> Any:
        """(rank, parameter, text) of the rank whose own gradient is wrong before the reduction; (None, "", "")."""
        differences = self._local_differences(local, scale)
        name = max(differences, key=lambda one: _size(differences[one])) if differences else ""
        own = differences.get(name, 0.0)
        every = self.team.exchange({"name": name, "off": not own <= self.tolerance, "text": number_text(own)})
        off = [rank for rank, told in enumerate(every) if told.get("off")]
        if not 0 < len(off) < self.team.ranks:
            return None, "", ""
        answer = every[off[0]]
        return (
            off[0],
            str(answer.get("name", "")),
            f"the gradient of {ranks_text(off)} is wrong before the reduction: relative difference "
            f"{answer.get('text', '')} to that of the same samples in a single process",
        )

    def _own_is_off(self, local: Optional[Dict[str, Any]], scale: float) -> bool:
        """Whether any rank's own gradient is wrong already: then it is no fault of the reduction."""
        differences = self._local_differences(local, scale)
        off = float(any(not difference <= self.tolerance for difference in differences.values()))
        return any(row[0] for row in self.team.gather([off]))

    def _loss(self, mean: float, losses: List[float], references: List[float]) -> None:
        off = abs(mean - references[0]) / max(abs(references[0]), 1e-3)
        if off <= self.tolerance:
            return
        bad = [rank for rank, loss in enumerate(losses) if not abs(loss) < float("inf")]
        self._fail(
            "loss",
            bad,
            seen=f"{mean:.6g} over the global batch",
            wanted=f"{references[0]:.6g}, as the single-process run has it, within {self.tolerance:g} of it",
        )


def _size(number: float) -> float:
    return number if number == number else float("inf")


def _finite(number: float) -> Optional[float]:
    return number if abs(number) < float("inf") else None
