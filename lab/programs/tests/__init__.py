"""Tests of what needs no PyTorch: python -m unittest discover -s lab/programs -t lab/programs"""
