"""CUDA numbers GPUs of different models in another order than nvidia-smi.

Why it matters: by default CUDA counts the fastest card first, nvidia-smi counts by PCI address. On a machine with
several models, "GPU 0" is then another card in each: CUDA_VISIBLE_DEVICES=0 selects a card that somebody else uses, and
monitoring shows the wrong one (pytorch#86539). With CUDA_DEVICE_ORDER=PCI_BUS_ID both count alike.
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check, command
from gpudoctor.knowledge.visible.devices import ORDER_VARIABLE, VARIABLE, select_on
from gpudoctor.knowledge.visible.now import driver_list, gpu_list, selection, variable
from gpudoctor.knowledge.visible.order import PCI_BUS_ID


@check("cuda-device-order-ambiguous", title="CUDA and nvidia-smi number the GPUs alike")
def cuda_device_order_ambiguous(machine: Snapshot) -> Problems:
    now = selection(machine)
    order = now.enumeration
    if not order.is_mixed or order.order == PCI_BUS_ID or not now.uses_ordinals:
        return
    indices = [slot.nvml for slot in order.slots]
    if not order.doubt and indices == sorted(index for index in indices if index is not None):
        return  # the driver was asked, and counts as nvidia-smi does
    models = sorted({slot.name for slot in order.slots})
    if order.doubt:
        seen = f"GPUs of {len(models)} models ({', '.join(models)}) and {ORDER_VARIABLE} not PCI_BUS_ID"
    else:
        pairs = [(ordinal, slot.nvml) for ordinal, slot in enumerate(order.slots) if slot.nvml != ordinal]
        seen = ", ".join(f"CUDA's {ordinal} is nvidia-smi's {index}" for ordinal, index in pairs[:4])
    named = VARIABLE in machine.environment.value
    gets = select_on(machine, machine.environment.value.get(VARIABLE)).devices
    yield Problem(
        # Without numbers in the variable nothing has gone wrong yet: all GPUs are in use, whatever their numbers.
        severity="warning" if named else "info",
        summary=f"CUDA may number the GPUs unlike nvidia-smi: {seen}" if order.doubt else seen,
        meaning=(
            f"A number in {VARIABLE} or in cuda:N can mean another card than the one nvidia-smi shows under it"
            + (f"; cuda:0 is now {gets[0].name}." if named and gets and not order.doubt else ".")
        ),
        fix=Fix(
            "Let CUDA count as nvidia-smi does, in the job's environment.",
            commands=(command("export {:variable}=PCI_BUS_ID", ORDER_VARIABLE),),
        ),
        evidence=(variable(machine, ORDER_VARIABLE), gpu_list(machine), driver_list(machine.cuda.all)),
    )
