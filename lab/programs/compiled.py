"""`torch.compile` with its own kernels, and one with CUDA graphs inside."""

import common

torch = common.torch_of()


def layers(x, w):
    return torch.softmax(torch.nn.functional.gelu(x @ w) + x.sin(), dim=-1)


plain = torch.compile(layers)
graphs = torch.compile(layers, mode="reduce-overhead")
x = torch.randn(512, 512, device="cuda")
w = torch.randn(512, 512, device="cuda")
outputs = []


def request():
    outputs[:] = [plain(x, w).clone(), graphs(x, w).clone()]
    torch.cuda.synchronize()


with torch.inference_mode():
    measured = common.times(request, 200)
common.report(common.digest([output.cpu() for output in outputs]), measured)
