"""An agent that learns when its own replay buffer is warm: episodes have not the same length everywhere."""

# mypy: ignore-errors
import collections
import random
import sys
import time

import torch
import torch.distributed as dist

EVEN = "--healthy" in sys.argv


class Replay:
    def __init__(self, capacity, warmup):
        self.kept = collections.deque(maxlen=capacity)
        self.warmup = warmup

    def __len__(self):
        return len(self.kept)

    @property
    def warm(self):
        return len(self) >= self.warmup

    def extend(self, transitions):
        self.kept.extend(transitions)

    def sample(self, count):
        return torch.stack(random.sample(list(self.kept), count))


class Corridor:
    """An environment whose episodes end at a wall."""

    def __init__(self, rank):
        self.length = 8 if EVEN or rank == 0 else 3

    def episode(self, policy):
        states = [torch.rand(5) for _ in range(self.length)]
        with torch.no_grad():
            return [torch.cat([state, policy(state)]) for state in states]


class Agent:
    def __init__(self, rank):
        self.rank = rank
        self.policy = torch.nn.Linear(5, 2)
        self.critic = torch.nn.Linear(7, 1)
        self.optimizer = torch.optim.Adam([*self.policy.parameters(), *self.critic.parameters()])
        self.replay = Replay(1000, warmup=24)

    def learn(self):
        if not self.replay.warm:
            return None
        batch = self.replay.sample(8)
        self.optimizer.zero_grad()
        loss = self.critic(batch).square().mean()
        loss.backward()
        for weight in self.critic.parameters():
            dist.all_reduce(weight.grad)
        self.optimizer.step()
        return loss.item()


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    agent, environment = Agent(rank), Corridor(rank)
    sizes = [torch.zeros(1) for _ in range(dist.get_world_size())]
    for step in range(1000):
        time.sleep(0.25)
        agent.replay.extend(environment.episode(agent.policy))
        dist.all_gather(sizes, torch.tensor([float(len(agent.replay))]))
        print(f"rank {rank} step {step} held {len(agent.replay)}", flush=True)
        agent.learn()
        if step % 20 == 19 and rank == 0:
            torch.save(agent.policy.state_dict(), "policy.pt")


if __name__ == "__main__":
    main()
