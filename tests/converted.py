"""Passes on what AutoGraph has converted in a process to processes forked later.

A training spends most of its first step on that, and the source of Keras is always the
same. Only sources are converted here: nothing of TensorFlow runs, which could not be
forked.
"""

import contextlib
import marshal
import pickle
import sys
import types

from tensorflow.python.autograph.core import converter
from tensorflow.python.autograph.impl import api

_kept = []  # AutoGraph knows code as long as that is there.


def known():
    """The code that this process has converted, with the options of each."""
    cache = api._TRANSPILER._cache._cache
    return {(code, key) for code, keys in cache.items() for key in keys}


def write(file, before):
    """Writes to a file what was converted since `known` returned `before`."""
    found = [(marshal.dumps(code), key) for code, key in known() - before]
    file.write(pickle.dumps(found))
    file.flush()


def read(file):
    """Converts what a file names, where this process has its modules."""
    data = file.read()
    if not data:  # The process was killed.
        return
    modules = {
        getattr(module, "__file__", None): module for module in [*sys.modules.values()]
    }
    for code, options in pickle.loads(data):
        code = marshal.loads(code)
        module = modules.get(code.co_filename)
        if module is None:
            continue
        cells = tuple(types.CellType() for _ in code.co_freevars)
        function = types.FunctionType(code, vars(module), closure=cells)
        # Whatever fails here only makes the commands convert it themselves.
        with contextlib.suppress(Exception):
            api._TRANSPILER.transform(function, converter.ProgramContext(options))
            _kept.append(code)
