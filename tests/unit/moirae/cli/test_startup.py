"""Start-up time of the command line: heavy libraries are loaded by the commands that need them."""

import subprocess
import sys

HEAVY_MODULES = ("pyspark", "numba", "sklearn", "scipy", "duckdb", "deltalake", "pyarrow")


def test_command_line_loads_no_heavy_library() -> None:
    program = (
        "import sys, moirae.__main__\n"
        "from moirae.inspect import is_live_available, sum_accounting\n"
        f"print(*[name for name in {HEAVY_MODULES!r} if name in sys.modules])"
    )
    process = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert process.stdout.split() == []
