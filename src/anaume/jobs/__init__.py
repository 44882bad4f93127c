"""Whole files through a bundle: streaming, bounded in memory, whole outputs or none."""
