"""The run: settings, schedule, state, the loop, pretraining; killed at any step, it goes on as if nothing had been."""
