"""torch is told to write its flight recorder at a timeout, and to record nothing.

Why it matters: the recorder tells which rank was in which collective when a job hung. With a buffer of 0 entries the
dump at the timeout is empty, which is noticed after the hang.
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check, command
from gpudoctor.knowledge.pytorch.torch_variables import BUFFER_SIZES, number, switch
from gpudoctor.knowledge.visible.now import variable

DUMP = "TORCH_NCCL_DUMP_ON_TIMEOUT"
ENTRIES = 2000  # torch's own default of TORCH_FR_BUFFER_SIZE (FlightRecorder.hpp, torch 2.11)


@check("torch-flight-recorder-empty", title="torch's flight recorder records what it dumps")
def torch_flight_recorder_empty(machine: Snapshot) -> Problems:
    environment = machine.environment.value
    # The first name wins where both are set.
    name = next((buffer_size for buffer_size in BUFFER_SIZES if buffer_size in environment), None)
    if switch(environment.get(DUMP, "")) is not True or name is None or number(environment[name]) != 0:
        return
    yield Problem(
        severity="warning",
        summary=f"{DUMP}={environment[DUMP]} with {name}=0",
        meaning="After a hang the dump is empty, and nobody can tell which rank was missing.",
        fix=Fix("Give the recorder room.", commands=(command("export {:variable}={:number}", name, ENTRIES),)),
        evidence=(variable(machine, DUMP), variable(machine, name)),
    )
