"""Timing of single steps, and of a fixed computation that shows how noisy the machine is."""

import hashlib
import time
from collections.abc import Callable

_NOISE_KERNEL_HASHES = 400_000


def measure_seconds(step: Callable[[], object]) -> float:
    """The seconds that a step takes."""
    started_at = time.perf_counter()
    step()
    return time.perf_counter() - started_at


def measure_processor_seconds(step: Callable[[], object]) -> float:
    """The processor seconds that a step takes in all threads of this process."""
    started_at = time.process_time()
    step()
    return time.process_time() - started_at


def time_noise_kernel() -> float:
    """The seconds of a fixed computation: its variation is due to the machine alone."""
    return measure_seconds(_run_noise_kernel)


def _run_noise_kernel() -> None:
    digest = b"moirae"
    for _ in range(_NOISE_KERNEL_HASHES):
        digest = hashlib.blake2b(digest, digest_size=32).digest()
