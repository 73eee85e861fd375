"""Relayouts on an NVIDIA GPU: each family chooses its tiles and lays out its launch in one module."""
