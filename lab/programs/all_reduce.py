"""All-reduce by NCCL, and training in two processes, on as many GPUs as there are (two at least)."""

import os
import socket

import common
import torch
import torch.distributed as dist
import torch.multiprocessing as multiprocessing

STEPS = 30


def rank_main(rank, count, port, answers):
    common.torch_of()
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", rank=rank, world_size=count)
    summed = torch.full((1 << 22,), float(rank + 1), device="cuda")

    def reduce():
        dist.all_reduce(summed)
        summed.div_(count)
        torch.cuda.synchronize()

    reduced = common.times(reduce, 200)
    layers = [torch.nn.Linear(1024, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 8)]
    model = torch.nn.parallel.DistributedDataParallel(
        torch.nn.Sequential(*layers).cuda(), device_ids=[rank])
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    losses = []

    def step():
        x = torch.randn(256, 1024, device="cuda")
        optimizer.zero_grad(set_to_none=True)
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
        torch.cuda.synchronize()

    trained = common.times(step, STEPS)
    outputs = [summed.cpu().numpy(), torch.stack(losses).cpu().numpy()]
    answers.put((rank, common.digest(outputs), reduced, trained))
    dist.destroy_process_group()


def main():
    count = torch.cuda.device_count()
    if count < 2:
        raise SystemExit("this needs two GPUs")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    answers = multiprocessing.get_context("spawn").SimpleQueue()
    ranks = multiprocessing.spawn(rank_main, args=(count, port, answers), nprocs=count, join=False)
    results = sorted(answers.get() for _ in range(count))
    while not ranks.join():
        pass
    trained = sorted(results[0][3])
    digests = [digest.encode() for _, digest, _, _ in results]
    common.report(common.digest([list(digest) for digest in digests]), results[0][2], gpus=count,
                  step_ms=round(trained[len(trained) // 2], 4))


if __name__ == "__main__":
    main()
