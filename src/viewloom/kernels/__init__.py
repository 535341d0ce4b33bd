"""Kernels: from the samples of a view to an operator, and from new samples to their rows of it."""

from viewloom.kernels.diffusion import Diffusion
from viewloom.kernels.linear import Cosine, Linear
from viewloom.kernels.nystroem import Nystroem
from viewloom.kernels.pairwise import FunctionKernel, Gaussian, PairwiseKernel, Polynomial, Precomputed
from viewloom.kernels.registry import KERNELS, make_kernel

__all__ = [
    "KERNELS",
    "Cosine",
    "Diffusion",
    "FunctionKernel",
    "Gaussian",
    "Linear",
    "Nystroem",
    "PairwiseKernel",
    "Polynomial",
    "Precomputed",
    "make_kernel",
]
