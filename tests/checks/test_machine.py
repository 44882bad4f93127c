import time

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from anaume.checks import machine
from anaume.config import EncoderConfig
from anaume.errors import SettingsError
from anaume.model import Bert

CONFIG = EncoderConfig(vocab_size=50, hidden_size=24, num_hidden_layers=3, num_attention_heads=2, intermediate_size=40)


@pytest.mark.parametrize("length", [1, 7, 30])
def test_the_formula_counts_what_torch_counts(length):
    model = Bert(CONFIG, seed=0).eval()
    counter = FlopCounterMode(display=False)
    with torch.no_grad(), counter:
        model(torch.ones(5, length, dtype=torch.long), None, keep_attentions=True)  # the plain products are counted
    assert machine.encoder_flops(CONFIG, [length] * 5) == counter.get_total_flops()


def test_rows_of_several_lengths_add_up():
    parts = [machine.encoder_flops(CONFIG, [length]) for length in (3, 0, 11)]
    assert machine.encoder_flops(CONFIG, iter([3, 0, 11])) == sum(parts)
    assert parts[1] == 0.0 < parts[0] < parts[2] * 3 / 11, "attention grows with the square"


def test_the_share_is_work_over_time_and_rate():
    assert machine.share_of_machine(3e12, 10.0, 400.0) == pytest.approx(0.75)
    for seconds, rate in ((0.0, 400.0), (10.0, 0.0)):
        with pytest.raises(SettingsError, match="must be positive"):
            machine.share_of_machine(1.0, seconds, rate)


class Clock:
    """Every look at the clock costs `step` seconds."""

    def __init__(self, step):
        self.now, self.step = 0.0, step

    def __call__(self):
        self.now += self.step
        return self.now


def test_the_rate_is_work_over_the_time_of_a_repeat(monkeypatch):
    monkeypatch.setattr(time, "perf_counter", Clock(0.002))
    flops = 2 * (1024 * 384 * 1536) * 2
    assert machine.matrix_rate("float32", seconds=0.01) == pytest.approx(flops / 0.002 / 1e9)


def test_the_fastest_route_counts_and_a_slow_repeat_does_not(monkeypatch):
    clock = Clock(0.0)
    monkeypatch.setattr(time, "perf_counter", clock)

    def takes(*durations):
        turns = iter(durations)
        return lambda: setattr(clock, "now", clock.now + next(turns))

    routes = [takes(*[9] * 3, 0.5, 0.5, 9), takes(*[9] * 3, 0.25, 5, 0.25)]
    monkeypatch.setattr(machine, "_routes", lambda precision: routes)
    flops = 2 * (1024 * 384 * 1536) * 2
    assert machine.matrix_rate("bfloat16", seconds=1.0) == pytest.approx(flops / 0.25 / 1e9)


def test_wrong_settings_are_refused():
    with pytest.raises(SettingsError, match="float16"):
        machine.matrix_rate("float16")
    with pytest.raises(SettingsError, match="seconds must be positive"):
        machine.matrix_rate("float32", seconds=0)


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
    info = "model name\t: Some   CPU\n"
    files(monkeypatch, cpuinfo=info, meminfo="MemTotal: 2048 kB\nMemAvailable: 1024 kB\n", cpu_max="150000 100000\n")
    assert machine._processor() == "Some CPU"
    assert machine._memory() == (2048 * 1024, 1024 * 1024)
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
    assert machine._processor()
    total, free = machine._memory()
    assert total is None or total > 0
    assert free is None


@pytest.mark.parametrize(("rate", "faster"), [(100.0, False), (119.0, False), (121.0, True)])
def test_bfloat16_counts_as_faster_only_well_above_noise(rate, faster):
    known = {"processor": "x", "cores": 2, "threads": 2, "instructions": (), "memory_total": None, "memory_free": None}
    here = machine.Machine(**known, accelerator=None, float32_rate=100.0, bfloat16_rate=rate, system="any")
    assert here.bfloat16_is_faster is faster
