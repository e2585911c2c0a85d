"""A process of the lab: what it is told, the loads of its roles, the device and the works.

`roles.py`, `triton_server.py` and the plan's scripts are made of it. Nothing here knows of the
scheduler, and only `device.py` and `works` import PyTorch.
"""
