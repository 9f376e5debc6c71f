"""Coverage-guided fuzzing of everything that a stranger's bytes reach (needs the `atheris` package).

python -m tests.dns.fuzz CORPUS_FOLDER [libFuzzer options, such as -max_total_time=3600 -max_len=600]
"""

from __future__ import annotations

import importlib
import sys

import atheris

with atheris.instrument_imports(include=["director.dns"]):
    hostile = importlib.import_module("tests.dns.hostile")


if __name__ == "__main__":
    atheris.Setup(sys.argv, hostile.check)
    atheris.Fuzz()
