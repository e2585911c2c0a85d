"""Eight threads with streams of their own, priorities, events between them and one allocator."""

import threading

import common

torch = common.torch_of()
THREADS, ROUNDS = 8, 40
weights = torch.randn(512, 512, device="cuda") / 23
results = [None] * THREADS
low, high = 0, -5


def work(number):
    stream = torch.cuda.Stream(priority=high if number % 2 else low)
    other = torch.cuda.Stream()
    generator = torch.Generator(device="cuda").manual_seed(number)
    with torch.inference_mode(), torch.cuda.stream(stream):
        x = torch.randn(512, 512, device="cuda", generator=generator)
        for turn in range(ROUNDS):
            x = torch.tanh(x @ weights)
            if turn % 4 == 0:
                other.wait_stream(stream)
                with torch.cuda.stream(other):
                    y = x * 1.5
                stream.wait_stream(other)
                x = y - x * 0.5
        results[number] = x.cpu()


def request():
    threads = [threading.Thread(target=work, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    torch.cuda.synchronize()


torch.cuda.synchronize()
measured = common.times(request, 20, warm=2)
common.report(common.digest(results), measured)
