"""What `make demo` tells: the main job on real text and a real checkpoint, then an encoder trained from raw text."""

from anaume.demo.story import run_demo

__all__ = ["run_demo"]
