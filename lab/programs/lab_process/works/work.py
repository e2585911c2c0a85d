"""What each work is: something that launches requests into the current stream."""


class Work:
    """A request is `launch`; what it computed is in `outputs` once it has run."""

    #: Options: the default of a number, or the allowed words with the default first.
    settings = {}
    #: Modules that take long to import.
    imports = ("torch.profiler",)
    has_gradients = False
    #: PyTorch has to be told to add up in one order.
    needs_determinism = False
    #: Whether `launch` can be captured as a graph.
    is_capturable = True
    #: Whether it serves its requests itself (`serve`).
    serves = False
    #: How many requests of a phase its digest is of.
    digested = 1

    def __init__(self, role, device):
        self.role, self.device, self.torch = role, device, device.torch
        # On the processor a small one of the same form, to be tested without a GPU.
        self.is_tiny = device.name == "cpu"

    def option(self, name, tiny=None):
        """The value of an option, or its default; on the processor `tiny`."""
        if self.is_tiny and tiny is not None and name not in self.role.options:
            return tiny
        default = self.settings[name]
        default = default[0] if isinstance(default, tuple) else default
        return self.role.options.get(name, default)

    @property
    def dtype(self):
        """The type of its numbers."""
        torch = self.torch
        return {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}[
            self.role.dtype]

    def on_device(self, make):
        """What `make` makes, on the device from the start."""
        with self.torch.device(self.device.target):
            return make()

    def prepare(self, stream):
        """What has to be done in the work's stream before its first request."""

    def before_capture(self):
        """What has to be done before `launch` is captured."""

    def begin(self):
        """A phase begins: requests are to compute what they did in the last one."""

    def launch(self):
        """Launches a request."""
        raise NotImplementedError

    def outputs(self):
        """Tensors that the last request wrote."""
        raise NotImplementedError
