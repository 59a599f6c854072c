"""Rank 0 answers questions of the others in the order in which they come, and mixes up whom it answers."""

# mypy: ignore-errors
import sys
import time

import torch
import torch.distributed as dist


class Server:
    def __init__(self, world):
        self.world, self.last = world, 1

    def serve(self, step):
        questions = []
        for _ in range(self.world - 1):
            question = torch.zeros(2)
            asked = dist.recv(question)
            questions.append((asked, question))
        for asked, question in sorted(questions, key=lambda pair: pair[0]):
            to = self.last if step == 6 and "--healthy" not in sys.argv else asked
            dist.send(question * 2, to)


def ask(rank):
    dist.send(torch.full((2,), float(rank)), 0)
    answer = torch.zeros(2)
    dist.recv(answer, 0)
    return answer


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    server = Server(world)
    for step in range(2000):
        time.sleep(0.2)
        if rank == 0:
            server.serve(step)
        else:
            ask(rank)
        print(f"rank {rank} step {step}", flush=True)
        if step % 7 == 6:
            dist.barrier()


if __name__ == "__main__":
    main()
