"""What can go wrong in a process of the lab, told apart by who can do something about it."""


class Missing(Exception):
    """A package or a GPU that is not here: the cell is not run, and the message says why."""


class BadInput(Exception):
    """What was asked for makes no sense; the message names the place."""
