"""Tiny trainings, one a framework, as texts: each rank prints one JSON line of what it was and had at the end."""

TELL = """
import json, os, sys

def tell(**said):
    # One write for each line: ranks share a pipe, and halves of lines would mix.
    said = {"arguments": sys.argv[1:], "local_rank": os.environ.get("LOCAL_RANK"), **said}
    os.write(1, (json.dumps(said) + "\\n").encode())
"""

STEPS = """
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

def equal_everywhere(model):
    mine = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
    every = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
    dist.all_gather(every, mine)
    return all(torch.equal(mine, other) for other in every)

def train():
    torch.manual_seed(100 + dist.get_rank())   # other weights and data on each rank: DDP must make them equal
    model = DistributedDataParallel(torch.nn.Linear(4, 2))
    before = model.module.weight.detach().clone()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.randn(8, 4)).square().mean().backward()
        optimizer.step()
    moved = not torch.equal(before, model.module.weight)
    equal = equal_everywhere(model)
    dist.barrier()   # nobody leaves while others still talk
    tell(rank=dist.get_rank(), world_size=dist.get_world_size(), equal=equal, moved=moved)
"""

LEAVE = """
sys.stdout.flush()
os._exit(0)   # torch 2.13 on CPU sometimes aborts at the end: "terminate called without an active exception"
"""

TORCH = f"""{TELL}{STEPS}
dist.init_process_group("gloo")
train()
dist.destroy_process_group()
{LEAVE}"""

SPAWN = f"""{TELL}{STEPS}
def main(rank, local_rank):
    os.environ["LOCAL_RANK"] = str(local_rank)
    train()

"""
"""Before the lines of the emission."""

ACCELERATE = f"""{TELL}{STEPS}
from accelerate import Accelerator

accelerator = Accelerator()
torch.manual_seed(100 + accelerator.process_index)
model = torch.nn.Linear(4, 2)
model, optimizer = accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1))
before = [parameter.detach().clone() for parameter in model.parameters()]
for _ in range(3):
    optimizer.zero_grad()
    accelerator.backward(model(torch.randn(8, 4)).square().mean())
    optimizer.step()
moved = not all(torch.equal(old, new) for old, new in zip(before, model.parameters()))
tell(rank=accelerator.process_index, world_size=accelerator.num_processes, equal=equal_everywhere(model), moved=moved)
accelerator.end_training()
{LEAVE}"""

LIGHTNING = f"""{TELL}{STEPS}
import lightning

class Tiny(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 2)

    def training_step(self, batch, index):
        return self.layer(batch).square().mean()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)

TRAINER

torch.manual_seed(100 + trainer.global_rank)
model = Tiny()
before = model.layer.weight.detach().clone()
trainer.fit_loop.max_epochs = 1
trainer.fit(model, torch.utils.data.DataLoader(torch.randn(48, 4), batch_size=2))
moved = not torch.equal(before, model.layer.weight)
tell(rank=trainer.global_rank, world_size=trainer.world_size, equal=equal_everywhere(model), moved=moved)
"""
"""TRAINER stands for the lines of the emission."""
