"""A product of square matrices."""

from .work import Work


class Gemm(Work):
    """8192³ by cuBLAS or hipBLAS; a batch is so many products."""

    settings = {"size": 8192}

    def __init__(self, role, device):
        super().__init__(role, device)
        size = self.option("size", tiny=64)
        make = lambda: self.torch.randn(size, size, device=device.target).to(self.dtype)  # noqa: E731
        self.left, self.right = make(), make()
        self.product = self.torch.empty_like(self.left)

    def launch(self):
        for _ in range(self.role.batch):
            self.torch.mm(self.left, self.right, out=self.product)

    def outputs(self):
        return [self.product]
