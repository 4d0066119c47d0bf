"""A cluster that we start listens on the loopback only, and is gone soon after its driver is."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec

import pytest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("ray") is None, reason='Ray is not installed (pip install "floatlens[ray]")'),
]
DRIVER = """
import sys
from floatlens.runs.ray_workers import RayWorkers
with RayWorkers(2, threads=1) as team:
    import ray
    ray.get([worker.hello for worker in team._all])
    print("up", flush=True)
    sys.stdin.read()
"""


def test_loopback_only_and_gone_with_its_driver() -> None:
    import psutil

    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", DRIVER], **pipes) as driver:  # type: ignore[call-overload]
        try:
            assert driver.stdout.readline() == b"up\n"
            here = psutil.Process(driver.pid)
            below = here.children(recursive=True)
            places = {
                one.laddr.ip.removeprefix("::ffff:")
                for process in (here, *below)
                for one in process.net_connections(kind="inet")
                if one.status == psutil.CONN_LISTEN
            }
            assert places == {"127.0.0.1"}
            assert len(below) > 3
        finally:
            driver.kill()
    _, left = psutil.wait_procs(below, timeout=30)
    assert not left
