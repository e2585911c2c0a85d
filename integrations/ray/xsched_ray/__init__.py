"""Classes and shares of GPUs for Ray's tasks, actors and Serve replicas.

>>> import ray
>>> @ray.remote(num_gpus=0.5, runtime_env={"xsched": {"class": "interactive", "share": 30}})
... def infer(prompt: str) -> str: ...

Ray on each node has to know the plugin::

    export RAY_RUNTIME_ENV_PLUGINS='[{"class": "xsched_ray.Plugin"}]'
"""

from xsched_ray._plugin import Plugin
from xsched_ray._settings import CLASSES, SettingsError, scheduling

__all__ = ["CLASSES", "Plugin", "SettingsError", "scheduling"]
