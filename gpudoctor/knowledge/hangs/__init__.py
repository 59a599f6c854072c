"""The taxonomy: why distributed jobs stand still or fail. `gpudoctor hang` and `explain` name their causes by it.

One stage of a job a module, by where a cause shows itself first.
"""

from gpudoctor.knowledge.hangs.cause import HangCause, Stage
from gpudoctor.knowledge.hangs.communicator import COMMUNICATOR
from gpudoctor.knowledge.hangs.first_collective import FIRST_COLLECTIVE
from gpudoctor.knowledge.hangs.ranks import RANKS
from gpudoctor.knowledge.hangs.rendezvous import RENDEZVOUS
from gpudoctor.knowledge.hangs.training import TRAINING

CAUSES: dict[str, HangCause] = {
    cause.name: cause for cause in (*RENDEZVOUS, *COMMUNICATOR, *FIRST_COLLECTIVE, *TRAINING, *RANKS)
}
"""By name, in the order in which a job meets them."""

__all__ = ["CAUSES", "HangCause", "Stage"]
