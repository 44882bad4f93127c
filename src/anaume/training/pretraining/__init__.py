"""Pretraining: a corpus becomes a trained bundle."""
