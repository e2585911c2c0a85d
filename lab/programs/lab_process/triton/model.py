"""A model of Triton's Python backend: a BERT of the lab.

The server loads a copy of this file for each instance of a model, in a process of its own. Requests
are run one after the other in a stream whose priority is the one that Triton's configuration has
for the model.
"""

import fcntl
import json
import pathlib
import sys

import triton_python_backend_utils as backend

#: What Triton calls priorities of models, if they have any.
PRIORITIES = ("PRIORITY_MAX", "PRIORITY_MIN")


class TritonPythonModel:
    """What the backend calls."""

    def initialize(self, args):
        """Loads the model and writes down what it needs alone."""
        config = json.loads(args["model_config"])
        given = json.loads(config["parameters"]["lab"]["string_value"])
        has_priority = config.get("optimization", {}).get("priority") in PRIORITIES
        # The backend's Python does not take PYTHONPATH.
        sys.path.extend(path for path in given["modules"] if path not in sys.path)
        from lab_process import device, launcher, spec

        role = spec.Role(**given["role"])
        # The ways differ by what the server is told; here only that of the stream counts.
        way = "priorities" if has_priority else "native"
        process = spec.Spec(given["device"], (role,), way, given["seed"], given["quick"])
        self.torch = device.torch_of(process.seed)
        self.device = device.make(process.device, self.torch)
        self.launcher = launcher.Launcher(role, process, self.device)
        profile = pathlib.Path(given["profile"])
        with (profile.parent / "lock").open("w") as lock:
            # One model after the other, so that none is measured while another one loads.
            fcntl.flock(lock, fcntl.LOCK_EX)
            self.launcher.make()
            if not profile.exists():
                profile.write_text(json.dumps(self.said(given["briefly"])))

    def said(self, briefly):
        """What the model needs alone, and where."""
        return {"hardware": self.device.hardware(), "software": self.device.software(),
                "role": self.launcher.measure(briefly)}

    def execute(self, requests):
        """Answers requests: the state of the first token of each input."""
        self.device.attach()
        with self.launcher.within():
            return [self.answer(request) for request in requests]

    def answer(self, request):
        """Runs a request."""
        given = backend.get_input_tensor_by_name(request, "tokens")
        work = self.launcher.work
        work.tokens.copy_(self.torch.from_dlpack(given.to_dlpack()))
        self.launcher.launch()
        hidden = work.output[:, 0].float().cpu().contiguous()
        made = backend.Tensor.from_dlpack("hidden", self.torch.utils.dlpack.to_dlpack(hidden))
        return backend.InferenceResponse(output_tensors=[made])
