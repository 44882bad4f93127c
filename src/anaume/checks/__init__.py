"""Checks a user can repeat: what the machine gives, and whether a bundle keeps the promises."""
