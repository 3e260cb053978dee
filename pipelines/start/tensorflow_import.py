"""Imports TensorFlow as commands use it.

It logs nothing, keeps the memory that it frees, and comes with Keras 2 where TensorFlow
Ranking is installed, which is written for it.
"""

import importlib
import os

from pipelines.start import quiet_start

# TensorFlow's own allocator keeps what it frees, as oneDNN's does on the CPUs where
# oneDNN is on by default. The C library gives large pieces back to the system, and
# getting them again may take as long as a step: see benchmarks/kept_memory.py.
_KEEPS_MEMORY = "TF_CPU_ALLOCATOR_USE_BFC"
# Its limit is the memory of the machine, or TensorFlow's default if that is more.
_MOST_MEMORY = "TF_CPU_BFC_MEM_LIMIT_IN_MB"
_MOST_BY_DEFAULT = 1 << 16

os.environ.setdefault(_KEEPS_MEMORY, "1")
_physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20
os.environ.setdefault(_MOST_MEMORY, str(max(_physical, _MOST_BY_DEFAULT)))

with quiet_start.hidden():
    try:
        # By name, as every module of the commands imports this one, and the other is
        # high above what it prepares.
        importlib.import_module("tfr_ext.tfr")
    except ImportError:
        from tfr_ext import _stack

        if _stack.tfr_problem() is None:
            raise
        # TensorFlow Ranking is not there. Only its own losses need it.
    import tensorflow as tf  # noqa: F401
