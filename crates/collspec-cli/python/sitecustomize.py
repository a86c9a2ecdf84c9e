"""Python imports this at its start, because `collspec gpu` puts its folder first in PYTHONPATH.

It does nothing until the program imports torch, and leaves a sitecustomize of the program or of its environment in place.
"""

import importlib.machinery
import os
import sys

from collspec_torch.switch import on_import_of_torch

_HERE = os.path.dirname(os.path.abspath(__file__))


def _run_the_next_sitecustomize():
    elsewhere = [folder for folder in sys.path if os.path.abspath(folder or os.curdir) != _HERE]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", elsewhere)
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(sys.modules["sitecustomize"])


on_import_of_torch()
_run_the_next_sitecustomize()
