"""PyTorch's operators forward and backward: matrices, convolutions, attention, norms, losses.

Prints a digest of all outputs and gradients, and what one pass over all of them takes.
"""

import common

torch = common.torch_of()
functional = torch.nn.functional
DEVICE = "cuda"


def tensor(*shape):
    return torch.randn(*shape, device=DEVICE, requires_grad=True)


a, b, image, kernel = tensor(256, 384), tensor(384, 128), tensor(4, 16, 32, 32), tensor(32, 16, 3, 3)
heads, table = tensor(2, 4, 64, 32), tensor(1000, 64)
indices = torch.randint(0, 1000, (512,), device=DEVICE)
targets = torch.randint(0, 128, (256,), device=DEVICE)

OPERATORS = {
    "matmul": lambda: a @ b,
    "conv2d": lambda: functional.conv2d(image, kernel, padding=1),
    "max_pool2d": lambda: functional.max_pool2d(image, 2),
    "batch_norm": lambda: functional.batch_norm(image, None, None, training=True),
    "layer_norm": lambda: functional.layer_norm(a, (384,)),
    "softmax": lambda: a.softmax(-1),
    "gelu": lambda: functional.gelu(a),
    "attention": lambda: (heads @ heads.transpose(-1, -2)).softmax(-1) @ heads,
    "gather": lambda: table[indices],
    "sort": lambda: a.sort(-1).values,
    "sum": lambda: a.sum(0),
    "cross_entropy": lambda: functional.cross_entropy(a @ b, targets),
}
LEAVES = (a, b, image, kernel, heads, table)
results = []


def request():
    results.clear()
    for operator in OPERATORS.values():
        for leaf in LEAVES:
            leaf.grad = None
        output = operator()
        output.square().sum().backward()
        results.append(output.detach())
        results.extend(leaf.grad for leaf in LEAVES if leaf.grad is not None)
    torch.cuda.synchronize()


# Gradients of gathers and pools are added up in any order unless PyTorch has a way that is not.
torch.use_deterministic_algorithms(True, warn_only=True)
measured = common.times(request, 20, warm=2)
common.report(common.digest([one.cpu() for one in results]), measured, operators=len(OPERATORS))
