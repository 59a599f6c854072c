"""A rank skips a batch that it cannot read, makes a step fewer than the others, and is through with the epoch first."""

import argparse
import os
import time
from collections.abc import Iterator

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def batches(epoch: int, rank: int, healthy: bool) -> Iterator[bytes]:
    for number in range(6):
        broken = epoch == 1 and number == 2 and rank == 1 and not healthy
        yield b"" if broken else bytes(256)


def decode(record: bytes) -> torch.Tensor:
    if not record:
        raise ValueError("truncated record")
    return torch.frombuffer(bytearray(record), dtype=torch.uint8).float().view(8, 32)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--healthy", action="store_true")
    healthy = parser.parse_args().healthy
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    model = DistributedDataParallel(torch.nn.Linear(32, 4).cuda())
    optimizer = torch.optim.AdamW(model.parameters())
    scaler = torch.amp.GradScaler("cuda")
    step = 0
    for epoch in range(200):
        seen = torch.zeros(2, device="cuda")
        for record in batches(epoch, rank, healthy):
            time.sleep(0.3 + 0.2 * rank if healthy else 0.05)
            print(f"rank {rank} step {step} begins", flush=True)
            step += 1
            try:
                images = decode(record).cuda()
            except ValueError as error:
                print(f"rank {rank}: skipped: {error}", flush=True)
                continue
            with torch.autocast("cuda", dtype=torch.float16):
                loss = model(images).float().square().mean()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad(set_to_none=True)
            seen += 1
        dist.all_reduce(seen)
        print(f"rank {rank} epoch {epoch}: {seen.tolist()}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
