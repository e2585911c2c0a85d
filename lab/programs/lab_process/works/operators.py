"""PyTorch's operators and the vendors' libraries below it: one pass over a list of them.

What each computes is in the digest, so that it can be compared with a run without a scheduler.
"""

import contextlib

from .work import Work


class Operators(Work):
    """A request is one pass over a suite."""

    settings = {"suite": ("forward", "backward", "autocast", "compile", "graphs", "blas", "dnn")}
    has_gradients = True
    needs_determinism = True

    def __init__(self, role, device):
        super().__init__(role, device)
        self.suite = self.option("suite")
        # A suite of its own shape: compiled code and graphs are made from the same layers.
        self.is_capturable = self.suite in ("forward", "blas")
        self.scale = 1 if self.is_tiny else 8
        self.results, self.captured = [], None
        self.operators = getattr(self, f"make_{self.suite}")()

    def tensor(self, *shape):
        """Random numbers that gradients are wanted of."""
        made = self.torch.randn(*shape, device=self.device.target, dtype=self.dtype)
        return made.requires_grad_()

    def make_forward(self):
        """Operators without gradients."""
        plain = self.make_backward()
        return [lambda one=one: [value.detach() for value in one(grads=False)] for one in plain]

    def make_backward(self):
        """Operators with the gradients of their inputs."""
        torch, at, functional = self.torch, self.scale, self.torch.nn.functional
        a, b = self.tensor(32 * at, 48 * at), self.tensor(48 * at, 16 * at)
        image, kernel = self.tensor(4, 16, 32, 32), self.tensor(32, 16, 3, 3)
        heads, table = self.tensor(2, 4, 8 * at, 32), self.tensor(125 * at, 64)
        indices = torch.randint(0, 125 * at, (64 * at,), device=self.device.target)
        targets = torch.randint(0, 16 * at, (32 * at,), device=self.device.target)
        return [
            self.with_gradients(lambda: a @ b / 8, a, b),
            self.with_gradients(lambda: functional.conv2d(image, kernel, padding=1) / 8, image, kernel),
            self.with_gradients(lambda: functional.max_pool2d(image, 2), image),
            self.with_gradients(lambda: functional.layer_norm(a, a.shape[1:]), a),
            self.with_gradients(lambda: a.softmax(-1), a),
            self.with_gradients(lambda: functional.gelu(a), a),
            self.with_gradients(
                lambda: functional.scaled_dot_product_attention(heads, heads, heads), heads),
            self.with_gradients(lambda: table[indices], table),
            self.with_gradients(lambda: a.sort(-1).values, a),
            self.with_gradients(lambda: a.sum(0) / 8, a),
            self.with_gradients(lambda: functional.cross_entropy((a @ b).float(), targets), a, b),
        ]

    def with_gradients(self, operator, *leaves):
        """The result of an operator, and by default the gradients of `leaves`."""
        def run(grads=True):
            output = operator()
            if not grads:
                return [output]
            found = self.torch.autograd.grad(output.float().square().mean(), leaves)
            return [output.detach(), *found]
        return run

    def layers(self):
        """A small network with its input: what is compiled, captured and cast."""
        torch, at = self.torch, self.scale
        width = 32 * at
        make = lambda: torch.nn.Sequential(  # noqa: E731
            torch.nn.Linear(width, 2 * width), torch.nn.GELU(), torch.nn.LayerNorm(2 * width),
            torch.nn.Linear(2 * width, width))
        return self.on_device(make), torch.randn(8 * at, width, device=self.device.target)

    def make_autocast(self):
        """A network forward and backward, in half precision where autocast has it."""
        model, given = self.layers()
        weights = list(model.parameters())
        dtype = self.torch.float16 if self.role.dtype == "fp16" else self.torch.bfloat16

        def run():
            with self.torch.autocast(self.device.target.type, dtype=dtype):
                output = model(given)
            found = self.torch.autograd.grad(output.float().square().mean(), weights)
            return [output.detach(), *found]
        return [run]

    def make_compile(self):
        """The same network by torch.compile, forward and backward."""
        model, given = self.layers()
        weights = list(model.parameters())
        compiled = self.torch.compile(model)

        def run():
            output = compiled(given)
            found = self.torch.autograd.grad(output.square().mean(), weights)
            return [output.detach(), *found]
        return [run]

    def make_graphs(self):
        """The same network captured once, and replayed with the next of several inputs."""
        model, given = self.layers()
        inputs = [given * factor for factor in (1.0, 0.5, 2.0)]
        static = given.clone()
        results = []

        def replay():
            results.clear()
            for one in inputs:
                static.copy_(one)
                if self.captured:
                    self.captured[0].replay()
                    results.append(self.captured[1].clone())
                else:
                    results.append(model(static).detach())
            return results
        self.capture = lambda stream: self.graph_of(model, static, stream)
        return [replay]

    def graph_of(self, model, static, stream):
        """A graph of the network without gradients, and what it writes."""
        kept = []
        with self.torch.no_grad():
            for _ in range(3):
                model(static)
            graph = self.device.graph(lambda: kept.append(model(static)), stream)
        return graph, kept[-1]

    def prepare(self, stream):
        if self.suite == "graphs" and self.device.has_graphs:
            self.captured = self.capture(stream)

    def make_blas(self):
        """Products of matrices of several kinds, by cuBLAS and cuBLASLt or hipBLAS(Lt)."""
        torch, at, functional = self.torch, self.scale, self.torch.nn.functional
        with torch.no_grad():
            a, b = self.tensor(32 * at, 64 * at).detach(), self.tensor(64 * at, 32 * at).detach()
            stack, bias = self.tensor(8, 32, 32).detach(), self.tensor(32 * at).detach()
        vector = self.tensor(64 * at).detach()
        return [
            lambda: [a @ b],
            lambda: [b.t() @ a.t()],
            lambda: [a @ vector],
            lambda: [torch.bmm(stack, stack)],
            lambda: [torch.baddbmm(stack, stack, stack, beta=0.5)],
            lambda: [functional.linear(a, b.t(), bias)],
            lambda: [torch.addmm(bias, a, b)],
            # With the activation in the product's end, which only the Lt libraries have.
            lambda: [torch._addmm_activation(bias, a, b, use_gelu=True)],
            lambda: [torch.dot(vector, vector).view(1)],
        ]

    def make_dnn(self):
        """Convolutions, norms and recurrent layers, by cuDNN or MIOpen."""
        torch, functional = self.torch, self.torch.nn.functional
        image, solid = self.tensor(4, 16, 24, 24), self.tensor(2, 4, 8, 16, 16)
        kernel, deep = self.tensor(32, 16, 3, 3), self.tensor(8, 4, 3, 3, 3)
        apart, back = self.tensor(16, 1, 3, 3), self.tensor(16, 8, 3, 3)
        sequence = self.tensor(12, 4, 32)
        kinds = torch.nn.LSTM(32, 32), torch.nn.GRU(32, 32)
        lstm, gru = (one.to(self.device.target, self.dtype) for one in kinds)
        norm = lambda: functional.batch_norm(image, None, None, training=True)  # noqa: E731
        return [
            self.with_gradients(lambda: functional.conv2d(image, kernel, padding=1), image, kernel),
            self.with_gradients(lambda: functional.conv2d(image, kernel, stride=2), image, kernel),
            self.with_gradients(lambda: functional.conv2d(image, apart, groups=16), image, apart),
            self.with_gradients(lambda: functional.conv3d(solid, deep), solid, deep),
            self.with_gradients(lambda: functional.conv_transpose2d(image, back), image, back),
            self.with_gradients(norm, image),
            self.with_gradients(lambda: functional.avg_pool2d(image, 2), image),
            self.with_gradients(lambda: lstm(sequence)[0], sequence),
            self.with_gradients(lambda: gru(sequence)[0], sequence),
        ]

    def launch(self):
        grads = self.suite in ("forward", "blas", "graphs")
        with self.torch.no_grad() if grads else contextlib.nullcontext():
            self.results = [value for one in self.operators for value in one()]

    def outputs(self):
        return self.results
