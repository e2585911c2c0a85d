"""The works: models and jobs by the names that SPEC has for them."""

import contextlib
import importlib
import importlib.metadata
import importlib.util

from .. import stand_ins
from ..faults import BadInput, missing

#: The module and the class of each work.
WORKS = {
    "bert-base": ("bert", "BertBase"),
    "bert-large": ("bert", "BertLarge"),
    "bert-large-train": ("training", "BertLargeTraining"),
    "black-scholes": ("sources", "BlackScholes"),
    "cfd": ("sources", "Cfd"),
    "deeplabv3": ("vision", "DeepLab"),
    "gemm-8192": ("matrices", "Gemm"),
    "llm": ("language", "LanguageModel"),
    "operators": ("operators", "Operators"),
    "resnet50": ("vision", "ResNet50"),
    "resnet50-train": ("training", "ResNetTraining"),
    "resnet152": ("vision", "ResNet152"),
    "whisper": ("speech", "Whisper"),
}
#: What `ready` gives the versions of, where they are installed.
PACKAGES = ("torchvision", "transformers", "triton")


def class_of(name):
    """The class of a work; its module needs no PyTorch to be imported."""
    if name not in WORKS:
        raise BadInput(f"the work {name!r} is none of {', '.join(WORKS)}")
    module, work = WORKS[name]
    return getattr(importlib.import_module(f".{module}", __name__), work)


def check(spec):
    """Refuses unknown works and options, before anything is loaded."""
    for role in spec.roles:
        settings = class_of(role.work).settings
        for key, value in role.options.items():
            place = f"the role {role.name}: options.{key}"
            if key not in settings:
                raise BadInput(f"{place}: {role.work} has {', '.join(settings) or 'no options'}")
            allowed = settings[key]
            if isinstance(allowed, tuple):
                if value not in allowed:
                    words = ", ".join(map(str, allowed))
                    raise BadInput(f"{place}: {value!r} is none of {words}")
            elif isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise BadInput(f"{place}: expected a number from 1, got {value!r}")


def preload(spec):
    """Imports what the roles' works will; what is not there is said once it is needed."""
    for name in {name for role in spec.roles for name in class_of(role.work).imports}:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)


def make(role, device):
    """The work of a role."""
    if stand_ins.are_wanted():
        return stand_ins.Spins(role, device)
    return class_of(role.work)(role, device)


def set_deterministic(torch, spec):
    """Has PyTorch use algorithms that give the same bits, if a role adds up in any order else."""
    if any(class_of(role.work).needs_determinism for role in spec.roles):
        torch.use_deterministic_algorithms(True, warn_only=True)
        torch.utils.deterministic.fill_uninitialized_memory = False


def versions():
    """Versions of what the works use, by name."""
    found = {}
    for name in PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found


def needs(module, package, name):
    """A module of a package that may not be installed."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise missing(error, module, package, name) from error


@contextlib.contextmanager
def both(one, other):
    """Two contexts, the second within the first."""
    with one, other:
        yield
