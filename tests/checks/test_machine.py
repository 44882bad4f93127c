import pytest
import torch

from anaume.checks import machine


def test_this_machine_is_described():
    here = machine.describe_machine(seconds=0.02)
    assert here.cores >= 1
    assert here.threads == torch.get_num_threads()
    assert here.float32_rate > 1
    assert here.bfloat16_rate > 0.1
    assert here.bfloat16_is_faster == (here.bfloat16_rate > 1.2 * here.float32_rate)
    assert here.memory_total is None or here.memory_free is None or here.memory_free <= here.memory_total
    assert here.processor in here.line()
    assert f"{here.cores} cores" in here.line()


def files(monkeypatch, **contents):
    monkeypatch.setattr(machine, "_read", lambda path: contents.get(path.rsplit("/", 1)[1].replace(".", "_"), ""))


def test_what_linux_tells_is_read(monkeypatch):
    files(monkeypatch, cpuinfo="model name\t: Some   CPU\n", cpu_max="150000 100000\n")
    assert machine.processor_name() == "Some CPU"
    assert machine.usable_cores() <= 2


def test_a_container_without_a_limit_has_all_cores(monkeypatch):
    files(monkeypatch)
    without = machine.usable_cores()
    files(monkeypatch, cpu_max="max 100000\n")
    assert machine.usable_cores() == without
    files(monkeypatch, cpu_max="1000 100000\n")
    assert machine.usable_cores() == 1


def test_a_system_that_tells_nothing_is_no_error(monkeypatch):
    files(monkeypatch)
    assert machine.processor_name()


@pytest.mark.parametrize(("rate", "faster"), [(100.0, False), (119.0, False), (121.0, True)])
def test_bfloat16_counts_as_faster_only_well_above_noise(rate, faster):
    known = {"processor": "x", "cores": 2, "threads": 2, "instructions": (), "memory_total": None, "memory_free": None}
    here = machine.Machine(**known, accelerator=None, float32_rate=100.0, bfloat16_rate=rate, system="any")
    assert here.bfloat16_is_faster is faster
