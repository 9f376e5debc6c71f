"""The watchdog ends the server that its pid file names, and nobody else."""

from __future__ import annotations

import signal
import subprocess

import pytest

from director.store.watchdog import Watchdog


@pytest.fixture
def watched():
    # A shell's background jobs ignore SIGINT, and so would whatever they start, this one too.
    process = subprocess.Popen(["sleep", "600"], preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
    yield process
    process.kill()
    process.wait()


def test_a_server_whose_owner_is_gone_is_ended(watched, tmp_path):
    """By SIGINT: a fast and orderly shutdown."""
    pid_file = tmp_path / "postmaster.pid"
    pid_file.write_text(f"{watched.pid}\n/data\n")
    watchdog = Watchdog(watched.pid, pid_file)
    watchdog.owner_is_gone()
    assert watched.wait(10) == -2
    watchdog.call_off()


def test_a_server_that_has_yet_to_write_its_pid_file_is_ended_too(watched, tmp_path):
    """An owner killed in the first moments leaves nothing behind either."""
    pid_file = tmp_path / "postmaster.pid"
    watchdog = Watchdog(watched.pid, pid_file)
    watchdog.owner_is_gone()
    pid_file.write_text(f"{watched.pid}\n")
    assert watched.wait(10) == -2
    watchdog.call_off()


def test_a_process_that_the_pid_file_does_not_name_is_left_alone(watched, tmp_path):
    """Its number may have passed from the server to anybody."""
    pid_file = tmp_path / "postmaster.pid"
    pid_file.write_text("1\n")
    watchdog = Watchdog(watched.pid, pid_file)
    watchdog.owner_is_gone()
    watchdog._shell.wait(15)
    assert watched.poll() is None


def test_a_watchdog_that_is_called_off_ends_nothing(watched, tmp_path):
    """After an orderly stop there is nothing to end."""
    pid_file = tmp_path / "postmaster.pid"
    pid_file.write_text(f"{watched.pid}\n")
    watchdog = Watchdog(watched.pid, pid_file)
    watchdog.call_off()
    assert watched.poll() is None
