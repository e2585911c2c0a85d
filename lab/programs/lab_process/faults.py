"""What can go wrong in a process of the lab, told apart by who can do something about it."""


class Missing(Exception):
    """A package or a GPU that is not here: the cell is not run, and the message says why."""


class BadInput(Exception):
    """What was asked for makes no sense; the message names the place."""


def missing(error, module, package, name):
    """What is missing if a module of a package cannot be imported."""
    if isinstance(error, ModuleNotFoundError) and error.name == module.partition(".")[0]:
        return Missing(f"{name} is not installed; pip install {package}")
    return Missing(f"{name} cannot be used: {error}")
